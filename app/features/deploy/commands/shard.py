"""Command `shard`: plans a model over a mesh of devices."""

from __future__ import annotations

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console
from espalier.app.commands.interrupts import interruptible
from espalier.app.commands.opening import Target, opened
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.features.deploy.commands.emit_shard import add_emit_arguments, check_emit, emit, emit_lines
from espalier.app.features.deploy.commands.given_options import check_given
from espalier.app.features.deploy.commands.measure_shard import add_measure_arguments, measure, measured_lines
from espalier.app.features.deploy.commands.run_shard import add_run_arguments, run, sharded
from espalier.app.features.deploy.commands.serve_shard import add_serve_arguments, serve
from espalier.passes.analysis.shard_plan import planned
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.text import plan_rows, plan_summary, plan_text

DETAILS = """examples
  main.py shard demo:reviews --mesh 2x2
  main.py shard "config:bert" --mesh 2x4 --training --sizes seq=128 --memory 16GiB
  main.py shard "config:llama?num_hidden_layers=80&weights=none" --mesh 8x8 --dtype bfloat16 --json
  main.py shard demo:reviews --mesh 1x2 --run --strategy megatron --data demo:reviews --limit 32
  main.py shard demo:reviews --mesh 1x2 --serve --data demo:reviews --request-rate 100 --seconds 10
  main.py shard hf:bert-base-uncased --mesh 1x2 --strategy megatron --emit bert-on-two
  main.py shard --measure
Devices: h100, a100, cpu, or `this`, which times this machine. Times are predictions of a cost model.
--measure times the links between two processes of this machine, which `this` has from then on.
--emit writes the folder of a program for torchrun, SLURM or Kubernetes, which needs no Espalier.
--run starts torchrun with one process per device on this machine and compares outputs, gradients, times and
bytes with one process. --serve answers requests instead and reports throughput, latencies and restarts. Exit code 1:
results differ from those of one process by more than rounding."""


def _arguments(parser: Parser) -> None:
    text = "the model; a project's steps are part of it"
    parser.add_argument("target", metavar="SOURCE|PROJECT", nargs="?", default="", help=text)
    add_options(parser, ShardPlanOptions)
    add_run_arguments(parser)
    add_serve_arguments(parser)
    add_emit_arguments(parser)
    add_measure_arguments(parser)


def _run(args: Arguments, console: Console) -> Answer:
    check_given(args)
    if not args.measure:
        return _of_model(args, console)
    with interruptible():
        report = measure(console)
    if not args.target:
        return Answer(report, lambda: measured_lines(report))
    found = _of_model(args, console)
    return Answer(found.data | {"measured": report}, lambda: (*measured_lines(report), "", *found.lines()), found.code)


def _of_model(args: Arguments, console: Console) -> Answer:
    """Plan the model, or run, serve or emit it."""
    if args.emit:
        check_emit(args)
    if args.run or args.serve or args.emit:
        with interruptible(), opened(args.target, args, console) as target:
            return _done(target, args, console)
    options: ShardPlanOptions = read_options(ShardPlanOptions, args)
    with opened(args.target, args, console) as target:
        plan = planned(target.project.graph, options)
    return Answer({"rows": list(plan_rows(plan)), "summary": plan_summary(plan)}, lambda: plan_text(plan))


def _done(target: Target, args: Arguments, console: Console) -> Answer:
    """Emit the model, run or serve it, or both; the exit code is that of the run."""
    graph = sharded(target, args)
    emitted = emit(target, graph, args, console) if args.emit else None
    if not (args.run or args.serve):
        assert emitted is not None
        return Answer(emitted, lambda: emit_lines(emitted))
    ran = (serve if args.serve else run)(target, graph, args, console)
    if emitted is None:
        return ran
    return Answer(ran.data | {"emitted": emitted}, lambda: (*ran.lines(), "", *emit_lines(emitted)), ran.code)


COMMAND = Command(
    "shard",
    "plans the model over a mesh of devices, runs it there, and writes a program that does",
    _arguments,
    _run,
    DETAILS,
)
