"""The graph as SystemVerilog: written, linted, scheduled and optionally simulated against the integer model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.errors import DataError, EspalierError, OptionsError, SimulateError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.hardware_host import host_rows
from espalier.passes.base import Context, Report, analysis
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.verilog.design.options import EmitOptions, sizes_in

if TYPE_CHECKING:
    from espalier.passes.analysis.hardware_scored import Batch
    from espalier.verilog.design.netlist import Design
    from espalier.verilog.design.template import Template
    from espalier.verilog.numbers.fixed import Codes
    from espalier.verilog.proof.simulate import Simulated
    from espalier.verilog.proof.waves import Handshakes
    from espalier.verilog.timing.schedule import Schedule

    Samples = list[Batch] | EspalierError

STALLS = (0, 1, 2, 3)  # stall patterns: none, of inputs, of outputs, of both


@dataclass(frozen=True, slots=True)
class HardwareOptions:
    """The design and its verification."""

    folder: str = field(
        default="", metadata={"help": "folder for the design; empty: do not write it", "writes": "emit -o DIR"}
    )
    name: str = field(default="top", metadata={"help": "name of the top module"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})
    engine: Literal["folded", "unrolled"] = field(
        default="folded",
        metadata={
            "help": "folded: multipliers are shared; unrolled: weights become adders, one row or pixel per cycle"
        },
    )
    adders: int = field(default=4, metadata={"min": 1, "help": "unrolled: number of adders between two registers"})
    simulate: bool = field(default=False, metadata={"help": "compare with the integer model in a simulator"})
    simulator: Literal["", "verilator", "icarus"] = field(
        default="", metadata={"help": "default: Verilator if installed", "empty": "automatic"}
    )
    samples: int = field(default=32, metadata={"min": 1, "help": "samples to simulate"})
    stalls: bool = field(default=True, metadata={"help": "also with random stalls of inputs and outputs"})
    waves: Literal["", "fst", "vcd"] = field(
        default="",
        metadata={"help": "also write a trace of all signals of the instances (without stalls)", "empty": "no trace"},
    )
    cocotb: bool = field(default=False, metadata={"help": "also write a test bench in Python, for cocotb"})
    data: str = field(default="", metadata={"help": "data to simulate; empty: random values", "edit": "data"})
    split: str = field(default="", metadata={"help": "which part of the data", "edit": "split"})
    synthesize: Literal["", "xilinx", "ecp5", "ice40"] = field(
        default="",
        metadata={"help": "FPGA family for a synthesis by Yosys; empty: estimates only", "empty": "estimates"},
    )
    route: bool = field(default=False, metadata={"help": "with a synthesis, also place and route for a clock"})
    modules: dict[str, str] = field(
        default_factory=dict, metadata={"help": "library modules that were edited: name to text"}
    )  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise OptionsError(f"samples is {self.samples}.", "It must be 1 or more.")
        if self.adders < 1:
            raise OptionsError(f"adders is {self.adders}.", "It must be 1 or more.")
        if self.route and not self.synthesize:
            raise OptionsError("There is nothing to route without a synthesis.", "Synthesise for ecp5 or ice40.")


def emitting(options: HardwareOptions) -> EmitOptions:
    """The options of the design itself."""
    return EmitOptions(options.name, sizes_in(options.sizes), options.engine, options.adders)


@analysis("hardware", "Hardware", HardwareOptions)
def hardware(graph: Graph, options: HardwareOptions, context: Context) -> tuple[Graph, Report]:
    """One row per instance: module, format, cycles, area. The summary: interval, latency, area, lint, mismatches."""
    from espalier.verilog.design.template import total
    from espalier.verilog.emission.companion_files import companion_files
    from espalier.verilog.lowering.lower import lower
    from espalier.verilog.proof.lint import lint
    from espalier.verilog.proof.tools import simulator
    from espalier.verilog.rtl.edited_modules import check_pure
    from espalier.verilog.rtl.write import modules, texts, write
    from espalier.verilog.timing.schedule import schedule

    if options.simulate:
        simulator(options.simulator or None)  # raises before anything is written if it is missing
    context.progress(0, 5, "lowering")
    design = lower(graph, context.store, emitting(options))
    design = replace(design, edited={m: t for m, t in options.modules.items() if m in modules(design)})
    for module, text in design.edited.items():
        check_pure(module, text)
    summary: dict[str, Any] = {"modules": list(modules(design)), "instances": len(design.instances)}
    summary |= {"edited": sorted(design.edited)} if design.edited else {}
    summary |= {"remarks": design.remarks} if design.remarks else {}
    summary |= {"notes": list(design.notes)} if design.notes else {}
    summary["ports"] = host_rows(graph, design)
    summary["host"] = [{"node": h.node, "op": h.op, "why": h.reason, "able": h.able} for h in design.host_nodes]
    context.progress(1, 5, "scheduling")
    planned = schedule(design)
    files = texts(design, planned)
    summary |= {"first": planned.first, "cycles": planned.latency, "interval": planned.interval,
                "bottleneck": planned.bottleneck, "area": total(design.instances).report()}  # fmt: skip
    if options.folder:
        output = write(design, Path(options.folder), companion_files(design, planned, options.cocotb), planned)
        summary |= {"folder": str(output.folder), "files": list(output.files)}
    context.progress(2, 5, "checking the text")
    checked = lint(files, design.name)
    summary["lint"] = {
        "tools": list(checked.tools),
        "findings": [f"{f.file}:{f.line}: {f.text}" for f in checked.findings],
    }
    samples, simulated = _samples(graph, design, options, context), None
    if options.simulate:
        simulated = _simulated(graph, design, options, context, samples, summary)
    summary["scored_model"] = _compared(graph, design, context, samples, simulated)
    if options.synthesize:
        summary |= _synthesized(design, options, context)
    return graph, Report("hardware", tuple(_rows(design, planned)), summary)


def _remark(design: Design, instance: Template) -> str:
    """The remarks of the design and of the template on an instance."""
    of_design = design.remarks.get(instance.node, "") if instance.name == instance.node else ""
    return "; ".join(filter(None, (of_design, instance.remark())))


def _rows(design: Design, planned: Schedule) -> list[dict[str, Any]]:
    rows = []
    for instance in design.instances:
        cycles = max((e.steps for e in instance.engines()), default=0)
        rows.append({
            "node": instance.node, "instance": instance.name, "module": instance.module,
            "stream": instance.outputs[0].label, "cycles": cycles, "busy": planned.busy.get(instance.name, 0.0),
            "waits": planned.peaks.get(instance.name), "remark": _remark(design, instance),
            **instance.area().counts(),
        })  # fmt: skip
    return rows


def _simulated(graph: Graph, design: Design, options: HardwareOptions, context: Context,
               samples: Samples, summary: dict[str, Any]) -> tuple[Codes, ...] | None:  # fmt: skip
    """Simulate, add the results to `summary`, and return the simulated outputs of the data's samples, if any."""
    from espalier.verilog.proof.simulate import build, run

    if isinstance(samples, EspalierError) and options.data:
        raise samples
    inputs = _codes(graph, design, options, context, samples)
    frames = len(inputs[0])
    cache = context.store.folder / "simulations"
    tick = _ticking(context, "building the simulation")
    built = build(design, frames, cache, options.simulator or None, options.waves, tick)
    record = (Path(options.folder) if options.folder else context.store.folder) / "waves"
    runs: list[Simulated] = []
    for stall in STALLS if options.stalls else STALLS[:1]:
        tick = _ticking(context, f"simulating, stall pattern {stall} of {len(STALLS) - 1}")
        recorded = None if stall else record  # handshakes without external stalls
        runs.append(run(design, built, inputs, stall, seed=context.seed + stall + 1, tick=tick, record=recorded))
    summary |= {
        "simulator": built.simulator, "samples": frames, "simulated_cycles": runs[0].total,
        "mismatches": sum(m.count for s in runs for m in s.mismatches),
        "first_mismatches": [_mismatch(m, design) for s in runs for m in s.mismatches][:20],
        "stuck": any(s.stuck for s in runs), **_waits(runs[0].handshakes, record),
        **({"simulator_remark": built.remark} if built.remark else {}),
    }  # fmt: skip
    return runs[0].outputs if options.data and not summary["stuck"] else None


def _compared(graph: Graph, design: Design, context: Context, samples: Samples,
              simulated: tuple[Codes, ...] | None) -> dict[str, Any]:  # fmt: skip
    """The comparison with the scored and the float model, or the reason why there is none."""
    from espalier.passes.analysis.hardware_scored import compare_scored

    if isinstance(samples, EspalierError):
        return {"not_compared": samples.message}
    try:
        return compare_scored(graph, design, samples, context, simulated)
    except EspalierError as error:
        return {"not_compared": error.message}


def _waits(handshakes: Handshakes | None, folder: Path) -> dict[str, Any]:
    """The folder of the handshakes, and by stream the shares of cycles in which it moves, stalls and starves."""
    if handshakes is None:
        return {}
    return {"waves": str(folder), "trace": str(handshakes.trace or ""), "streams": handshakes.shares()}


def _ticking(context: Context, text: str) -> Callable[[object], None]:
    """A callback that reports progress, so that a cancelled job ends its subprocesses."""
    return lambda _: context.progress(3, 5, text)


def _synthesized(design: Design, options: HardwareOptions, context: Context) -> dict[str, Any]:
    """The synthesis by Yosys, in total and by instance, with a clock; or a text if Yosys is missing."""
    from espalier.verilog.proof.tools import yosys
    from espalier.verilog.synthesis.synthesize import synthesize

    try:
        yosys()
    except SimulateError as error:
        return {"not_synthesized": f"{error.message} {error.hint}"}
    say = lambda text: context.progress(4, 5, f"synthesising, {text}")  # noqa: E731
    synthesis = synthesize(design, options.synthesize, say, options.route)
    return {"synthesis": {
        "target": options.synthesize, **synthesis.total.counts(), "fmax_mhz": synthesis.fmax,
        "notes": list(synthesis.notes), "seconds": round(synthesis.seconds, 1),
        "instances": {n: a.counts() for n, a in synthesis.instances.items()},
    }}  # fmt: skip


def _mismatch(mismatch: Any, design: Design) -> dict[str, Any]:
    return {"stream": design.label(mismatch.wire), "node": mismatch.node, "sample": mismatch.frame,
            "beat": mismatch.beat, "cycle": mismatch.cycle, "expected": list(mismatch.expected),
            "got": list(mismatch.got)}  # fmt: skip


def _samples(graph: Graph, design: Design, options: HardwareOptions, context: Context) -> Samples:
    """Inputs with labels, from the data or random; or the error why there are none."""
    from espalier.passes.analysis.hardware_scored import random_batches
    from espalier.passes.running.length_batches import length_sorted_batches

    try:
        if not options.data:
            return random_batches(graph, design, options.samples, context.seed)
        split = load_split(_choice(options, design), context)
        samples: list[Batch] = [(inputs, labels.numpy()) for inputs, labels in length_sorted_batches(split, graph, 64)]
        if not samples:
            raise DataError("The data has no samples.", "Choose another split.")
    except EspalierError as error:
        return error
    return samples


def _codes(graph: Graph, design: Design, options: HardwareOptions, context: Context,
           samples: Samples) -> tuple[Codes, ...]:  # fmt: skip
    """Codes for the design's inputs: of the data, or random over their whole range, which covers more cases."""
    import numpy as np

    if not options.data or isinstance(samples, EspalierError):
        rng = np.random.default_rng(context.seed)
        shapes = [b.stream for b in design.inputs]
        return tuple(rng.integers(s.fixed.low, s.fixed.high + 1, (options.samples, s.rows, s.size)) for s in shapes)
    from espalier.verilog.emulation.integer_model import Host

    host = Host(graph, context.store, design, context.callables)
    parts = [host(**inputs) for inputs, _ in samples]
    return tuple(np.concatenate(p) for p in zip(*parts, strict=True))


def _choice(options: HardwareOptions, design: Design) -> EvaluateOptions:
    plain = EvaluateOptions(options.data, options.split, options.samples)
    return replace(plain, max_length=design.symbols.get("seq", plain.max_length))
