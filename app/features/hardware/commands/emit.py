"""Command `emit`: writes the graph as SystemVerilog, lints, schedules and simulates it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console, table
from espalier.app.commands.interrupts import ToldInterrupt
from espalier.app.commands.opening import opened
from espalier.app.features.hardware.state.score_comparison import ADVICE, scored_accuracy, scored_verdict
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.base import Context, run_step
from espalier.verilog.rtl.edited_modules import texts_in

WRITTEN, SYNTHESISING = 2, 4  # steps of the pass, as it reports them: files are there, synthesis began
MIN_STALLED = 0.01  # share of the cycles from which a stall is printed
AREA = ("lut", "ff", "dsp", "bram")
DETAILS = """examples
  main.py emit P.espalier -o rtl/ --simulate
  main.py emit P.espalier -o rtl/ --synthesize ecp5 --route
  main.py emit P.espalier -o rtl/ --engine unrolled --simulate --simulator icarus
  main.py emit P.espalier -o rtl/ --sizes seq=32 --simulate --data demo:reviews --samples 100
Every layer needs fixed-point formats (pass quantize with integer); the passes parallelize
and balance_parallelism choose the parallelism. Exit code 1: the simulation differs from the integer model."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="PROJECT|SOURCE", help="the quantised model")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--name", default="top", help="name of the top module")
    parser.add_argument("--sizes", default="", metavar="NAME=N,…", help="sizes of symbols in shapes, such as seq=32")
    parser.add_argument(
        "--engine", choices=("folded", "unrolled"), default="folded",
        help="unrolled: weights become adders, one row or pixel per cycle; for small networks",
    )  # fmt: skip
    parser.add_argument(
        "--adders", type=int, default=4, metavar="N", help="unrolled: number of adders between two registers"
    )
    parser.add_argument("--simulate", action="store_true", help="compare every stream with the integer model")
    parser.add_argument(
        "--simulator", choices=("verilator", "icarus"), default="", help="default: automatic (Verilator if installed)"
    )
    parser.add_argument("--synthesize", choices=("xilinx", "ecp5", "ice40"), default="", help="resources by Yosys")
    parser.add_argument("--route", action="store_true", help="with --synthesize: place and route for a clock, too")
    parser.add_argument("--samples", type=int, default=32, metavar="N", help="samples to simulate (default 32)")
    parser.add_argument(
        "--no-stalls", action="store_true", help="omit the runs with random pauses of inputs and outputs"
    )
    parser.add_argument(
        "--waves", nargs="?", choices=("fst", "vcd"), const="fst", default="",
        help="simulate, and keep a trace of the signals in DIR/waves (default: fst)",
    )  # fmt: skip
    parser.add_argument("--cocotb", action="store_true", help="also write a test bench in Python (make cocotb)")
    parser.add_argument("--data", default="", help="data to simulate (default: the demo's own, else random values)")
    parser.add_argument("--split", default="", help="which part of the data")


def _run(args: Arguments, console: Console) -> Answer:
    if args.route and not args.synthesize:
        raise OptionsError("There is nothing to route without a synthesis.", "Add --synthesize ecp5 or ice40.")
    with opened(args.target, args, console) as target:
        options = HardwareOptions(
            folder=args.output, name=args.name, sizes=args.sizes, engine=args.engine, adders=args.adders,
            simulate=args.simulate or bool(args.waves), simulator=args.simulator, waves=args.waves,
            cocotb=args.cocotb, samples=args.samples, stalls=not args.no_stalls,
            data=args.data or target.project.source.data or "", split=args.split,
            synthesize=args.synthesize, route=args.route,
        )  # fmt: skip
        options = replace(options, modules=texts_in(target.project.extras))
        step = Step("hardware", options, target.context.seed)
        with _telling_what_is_written(options, target.context, console):
            report = run_step(target.project.graph, step, target.context).report
    data = {**report.summary, "rows": list(report.rows)}
    failed = bool(data.get("mismatches") or data.get("stuck"))
    return Answer(data, lambda: _lines(data, Path(args.output)), 1 if failed else 0)


@contextlib.contextmanager
def _telling_what_is_written(options: HardwareOptions, context: Context, console: Console) -> Generator[None]:
    """On Ctrl+C say whether the folder is written, and which check of it did not end."""
    begun, progress = 0, context.progress

    def heard(done: int, total: int, text: str) -> None:
        nonlocal begun
        begun = max(begun, done)
        progress(done, total, text)

    context.progress = heard
    try:
        yield
    except KeyboardInterrupt:
        if begun < WRITTEN:
            raise
        check = "synthesis" if begun >= SYNTHESISING else "simulation" if options.simulate else "check of the text"
        message = f"Stopped. The files in {options.folder} are complete, but their {check} did not end."
        console.note(message)
        raise ToldInterrupt(message) from None
    finally:
        context.progress = progress


def _lines(data: dict[str, Any], folder: Path) -> Iterable[str]:
    rows = [
        {"node": r["node"], "module": r["module"], "stream": r["stream"], "cycles": r["cycles"] or "",
         "busy": f"{r['busy']:.0%}" if r["busy"] else "", "waits": r["waits"] or "",
         **{k: "?" if r[k] is None else r[k] for k in AREA}}
        for r in data["rows"]
    ]  # fmt: skip
    yield from data.get("notes", ())
    yield from table(rows)
    yield ""
    yield f"{len(data['files'])} files in {folder}"
    if data.get("edited"):
        yield f"with the project's edited {', '.join(data['edited'])}"
    every = f"{data['interval']:.0f} cycles" if data["interval"] > 1 else "cycle"
    yield (f"a sample every {every}, {data['cycles']} from its first beat to its last result; "
           f"slowest: {data['bottleneck']}")  # fmt: skip
    yield f"estimated for a 7-series FPGA: {_resources(data['area'])}"
    yield from (f"{r['instance']}: {r['remark']}" for r in data["rows"] if r["remark"])
    yield from _hosted(data["host"])
    tools = " and ".join(data["lint"]["tools"]) or "no tool (install verilator or pyslang)"
    count = len(data["lint"]["findings"])
    yield f"checked by {tools}: {count or 'no'} finding{'' if count == 1 else 's'}"
    yield from (f"  {f}" for f in data["lint"]["findings"][:20])
    if "simulator" in data:
        yield from _simulated(data)
    yield from _scored(data["scored_model"])
    if "synthesis" in data:
        yield from _synthesized(data["synthesis"])
    if "not_synthesized" in data:
        yield f"not synthesised: {data['not_synthesized']}"


def _hosted(nodes: list[dict[str, Any]]) -> Iterable[str]:
    """Lines about the nodes that the host computes, grouped by reason."""
    by_why: dict[str, list[str]] = {}
    for node in nodes:
        by_why.setdefault(node["why"], []).append(f"{node['node']} ({node['op']})")
    for reason, names in by_why.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield f"the host computes {', '.join(names[:8])}{more}: {reason}"


def _resources(area: dict[str, Any]) -> str:
    """The total area, or the modules without an estimate and the area of the rest."""
    if names := area.get("unknown"):
        return f"unknown (no estimate for {', '.join(names)}); the rest takes {_resources(area['rest'])}"
    return ", ".join(f"{area[k]} {k.upper()}" for k in AREA)


def _synthesized(synthesis: dict[str, Any]) -> Iterable[str]:
    yield ""
    yield from table([{"instance": n, **{k: a[k] for k in AREA}} for n, a in synthesis["instances"].items()])
    clock = f", {synthesis['fmax_mhz']:.0f} MHz after place and route" if synthesis["fmax_mhz"] else ""
    yield f"synthesised for {synthesis['target']} in {synthesis['seconds']:.0f} s: {_resources(synthesis)}{clock}"
    yield from synthesis["notes"]


def _simulated(data: dict[str, Any]) -> Iterable[str]:
    yield (f"simulated {data['samples']} samples with {data['simulator']}: {data['mismatches'] or 'no'} mismatches"
           + (", deadlock" if data["stuck"] else ""))  # fmt: skip
    if "simulator_remark" in data:
        yield f"  {data['simulator_remark']}"
    for m in data["first_mismatches"]:
        yield (f"  {m['stream']} ({m['node']}): sample {m['sample']}, beat {m['beat']}, cycle {m['cycle']}: "
               f"expected {m['expected']}, got {m['got'] or 'nothing'}")  # fmt: skip
    yield from _waiting(data)


def _scored(comparison: dict[str, Any]) -> Iterable[str]:
    """Lines comparing the design with the scored model."""
    yield scored_verdict(comparison)[1]
    if accuracy := scored_accuracy(comparison):
        yield accuracy
    if comparison.get("differing"):
        yield ADVICE


def _waiting(data: dict[str, Any]) -> Iterable[str]:
    """Lines about stalled streams, the most stalled first; streams of constants are omitted."""
    constants = {f"{r['instance']}_y" for r in data["rows"] if r["module"] == "source"}
    stalled = (r for r in data["streams"] if r["stalled"] >= MIN_STALLED and r["stream"] not in constants)
    rows = sorted(stalled, key=lambda r: -r["stalled"])
    for row in rows[:5]:
        yield f"  {row['reader'] or 'the outside'} stalls {row['stream']} in {row['stalled']:.0%} of the cycles"
    yield (
        f"handshakes of {len(data['streams'])} streams"
        + (" and a trace" if data["trace"] else "")
        + f" in {data['waves']}"
    )


COMMAND = Command("emit", "writes a model as SystemVerilog and checks it in a simulator", _arguments, _run, DETAILS)
