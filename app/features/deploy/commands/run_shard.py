"""The running part of the command `shard`: ranks on this machine, compared with one process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Parser
from espalier.app.commands.console import Console, table
from espalier.app.commands.opening import Target
from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.passes.base import run_step
from espalier.passes.choices.shard import STRATEGIES, ShardOptions
from espalier.passes.distributed.job import Source
from espalier.passes.distributed.run import MAX_RANKS, RunOptions, run_sharded
from espalier.passes.sharding.mesh import parse_mesh
from espalier.passes.sharding.planned import amount
from espalier.verilog.design.options import sizes_in

SHOWN = 20  # rows of a table


def add_run_arguments(parser: Parser) -> None:
    """Add --run and what belongs to it."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--run", action="store_true", help="run it by one process per device on this machine")
    ways.add_argument("--serve", action="store_true", help="answer requests by one process per device on this machine")
    parser.add_argument("--strategy", choices=STRATEGIES, default="auto", help="of the run (default auto: the plan)")
    parser.add_argument("--data", default="", help="run on these data (default: random inputs)")
    parser.add_argument("--split", default="", help="which part of the data")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="number of samples (default: two batches)")
    text = f"processes that may be started on this machine (default {MAX_RANKS})"
    parser.add_argument("--max-ranks", type=int, default=MAX_RANKS, metavar="N", help=text)
    parser.add_argument("--timeout", type=int, default=300, metavar="S", help="seconds that a rank waits for others")


def sharded(target: Target, args: Arguments, **given: Any) -> Graph:
    """The graph with shardings for the mesh: those of the project, or those of a step that is added to it."""
    graph = target.project.graph
    shapes = {n.sharding.mesh for n in graph if n.sharding}
    if shapes and (args.mesh is None or shapes == {parse_mesh(args.mesh).shape}) and args.strategy == "auto":
        return graph
    names = ("mesh", "device", "training", "memory", "rates", "batch_size", "sizes")
    values = {n: getattr(args, n) for n in names if getattr(args, n, None) is not None}
    options = replace(ShardOptions(strategy=args.strategy), **(values | given))
    return run_step(graph, Step("shard", options, target.context.seed), target.context).graph


def run(target: Target, graph: Graph, args: Arguments, console: Console) -> Answer:
    """Run the sharded graph; exit code 1 if it differs from one process by more than rounding."""
    source = target.project.source
    options = RunOptions(
        data=args.data, split=args.split, limit=args.limit, batch_size=args.batch_size or RunOptions().batch_size,
        timeout=args.timeout, max_ranks=args.max_ranks,
    )  # fmt: skip
    console.progress(0, 0, "starting the ranks")
    origin = Source(source.spec, source.inputs, source.seed)
    report = run_sharded(graph, options, target.context, origin, sizes_in(args.sizes or ""))
    within = all(d["within"] for d in report["difference"].values())
    return Answer(report, lambda: lines(report), 0 if within else 1)


def lines(report: dict[str, Any]) -> Iterable[str]:
    """The report as text."""
    yield (f"{report['ranks']} ranks ({report['mesh']}) over {report['backend']}, "
           f"{report['samples']} samples in {report['batches']} batches")  # fmt: skip
    yield from differences(report, "tensors")
    for key, title in (("forward_seconds", "forward"), ("step_seconds", "forward and backward")):
        if key in report["sharded"]:
            one, many = report["single"][key], report["sharded"][key]
            yield (f"{title}: {many * 1e3:.1f} ms a batch, one process {one * 1e3:.1f} ms ({many / one:.2f}×)"
                   + _predicted(report["predicted"], key, many))  # fmt: skip
    if why := report["predicted"].get("why"):
        yield f"no prediction: {why}"
    yield from memory(report)
    yield from _volumes(report)
    yield from last(report)


def differences(report: dict[str, Any], unit: str) -> Iterable[str]:
    """How results differ from those of one process."""
    for name, found in report["difference"].items():
        verdict = "equal bit for bit" if found["equal"] else "equal within rounding" if found["within"] else "DIFFERENT"
        worst = f", most in {found['worst']}" if found["worst"] else ""
        yield (f"{name}: {verdict} to one process: difference {found['largest']:.2g}, relative {found['relative']:.2g} "
               f"(n = {report['compared'][name]} {unit}{worst})")  # fmt: skip


def memory(report: dict[str, Any]) -> Iterable[str]:
    """Memory of each rank."""
    yield from table([{"rank": m["rank"], "weights": amount(m["stored_bytes"]), "peak memory": amount(m["peak_bytes"])}
                      for m in report["memory"]])  # fmt: skip


def last(report: dict[str, Any]) -> Iterable[str]:
    """What ran on whole tensors, and notes."""
    for row in report["gathered"][:SHOWN]:
        yield f"{row['node']} ran on whole tensors: {row['why']}"
    if len(report["gathered"]) > SHOWN:
        yield f"and {len(report['gathered']) - SHOWN} more nodes on whole tensors"
    yield from report["notes"]


def _predicted(found: dict[str, Any], key: str, measured: float) -> str:
    """What the cost model says for this machine, beside a measured time."""
    value = found.get(key)
    return f", predicted {value * 1e3:.3g} ms (measured {measured / value:.3g}×)" if value else ""


def _volumes(report: dict[str, Any]) -> Iterable[str]:
    """Bytes of collectives of a forward and of a backward pass, planned and counted."""
    found: dict[str, dict[str, int]] = {}
    for title, planned in (("forward", report["planned"]), ("backward", report["planned_backward"])):
        for row in planned:
            sizes = found.setdefault(row["collective"], {})
            sizes[f"{title} planned"] = sizes.get(f"{title} planned", 0) + row["bytes"]
        for name, counted in report[f"{title}_totals"].items():
            found.setdefault(name, {}).update({f"{title} bytes": counted["bytes"], f"{title} calls": counted["calls"]})
    columns = [f"{title} {what}" for title in ("forward", "backward") for what in ("planned", "bytes", "calls")]
    if found:
        yield ""
        yield from table([{"collective": n} | {c: found[n].get(c, 0) for c in columns} for n in sorted(found)])
    for gap in report["backward_gaps"][:SHOWN]:
        yield (f"{gap['node']}, backward: {gap['bytes']} bytes of {gap['collective']}, planned {gap['planned']}: "
               f"{gap['why']}")  # fmt: skip
