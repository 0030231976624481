"""Times each layer, and the rounding of its operands in each format, on this machine: what budgets of time add up."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from espalier.model.formats.base import Format
from espalier.model.graph import Graph
from espalier.model.meta import Precision
from espalier.model.ops import offered
from espalier.passes.allocation.places import bare
from espalier.passes.analysis.evaluate import EvaluateOptions
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.costs.layer_latency import PORTS, Times, keep, kind_of

if TYPE_CHECKING:
    from torch import fx

RUNS, WARM, SECONDS = 9, 2, 3.0  # runs of a format; at least three, then as many as this time allows
ABOUT = ("Formats are simulated on this machine: layers multiply in float. A format of an input costs the time of "
         "rounding it, one of a stored weight nothing, and pruned weights are multiplied all the same.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerLatencyOptions(EvaluateOptions):
    """The batch that is timed, and the formats whose rounding is."""

    batch_size: int = field(default=16, metadata={"min": 1, "help": "samples of the batch that is timed"})
    formats: tuple[Format, ...] = field(
        default=(), metadata={"help": "the formats to time; none: all, at usual widths"}
    )


@analysis("layer_latency", "Latency by layer", LayerLatencyOptions)
def layer_latency(graph: Graph, options: LayerLatencyOptions, context: Context) -> tuple[Graph, Report]:
    """Seconds of each layer for a batch, and of rounding its operands in each format; kept for budgets."""
    times = measure(graph, options, options.formats or usual_formats(), context)
    keep(times)
    rows = tuple(_rows(graph, times))
    layers = sum(times.layers.get(kind_of(n), 0.0) for n in graph)
    return graph, Report("layer_latency", rows, {"batch": times.batch, "seconds": layers, "about": ABOUT})


def _rows(graph: Graph, times: Times) -> list[Row]:
    """A line for each layer, and for each format of its operands that takes time."""
    found: list[Row] = []
    for node in graph:
        kind = kind_of(node)
        if kind not in times.layers:
            continue
        found.append({"node": node.id, "op": node.op, "port": "", "format": "", "seconds": times.layers[kind]})
        for port in PORTS:
            held = ((f, times.rounding.get(f"{kind} {port} {f}")) for f in sorted(times.formats))
            found += [{"node": node.id, "op": node.op, "port": port, "format": f, "seconds": s} for f, s in held if s]
    return found


def measure(graph: Graph, options: EvaluateOptions, formats: Sequence[Format], context: Context) -> Times:
    """Least seconds by kind of layer: whatever else runs adds to them. Raises DataError without data."""
    from espalier.passes.analysis.evaluate import batches, load_split

    inputs, labels = next(batches(load_split(options, context), graph, options.batch_size))
    layers: dict[str, list[float]] = defaultdict(list)
    rounding: dict[str, float] = {}
    columns: list[Format | None] = [None, *formats]
    for number, each in enumerate(columns):
        context.progress(number, len(columns), f"timing {each.label if each else 'layers in float'}")
        tried = _with(graph, each)
        own, rounds = _timed(tried, inputs, context)
        for name, seconds in own.items():
            layers[kind_of(graph.nodes[name])].append(seconds)
        if each is not None:
            spread: dict[str, list[float]] = defaultdict(list)
            for (name, port), seconds in rounds.items():
                spread[f"{kind_of(graph.nodes[name])} {port} {bare(each)}"].append(seconds)
            rounding |= {k: sum(v) / len(v) for k, v in spread.items()}
    return Times(len(labels), {k: min(v) for k, v in layers.items()}, rounding, frozenset(map(bare, formats)))


def _with(graph: Graph, each: Format | None) -> Graph:
    """The graph with one format at all operands that take one, or with none at all."""
    held = Precision(each) if each is not None else None
    nodes = (
        replace(n, precision={p: held for p in PORTS if p in offered(n)} if held else {})
        for n in graph if n.call not in ("placeholder", "output")
    )  # fmt: skip
    return graph.replace(*nodes)


def _timed(graph: Graph, inputs: dict[str, Any], context: Context) -> tuple[dict[str, float], dict[Any, float]]:
    """Least seconds of each node, and of what rounds an operand, shared among those that read it."""
    import torch

    from espalier.model.build import NODE, PORT, build
    from espalier.passes.analysis.evaluate import fit_error

    module = build(graph, context.store, context.callables, packed=True)
    found: dict[fx.Node, list[float]] = defaultdict(list)
    run = _clocked(module, found)
    with torch.no_grad(), fit_error(inputs):
        begin = time.perf_counter()
        for number in range(WARM + RUNS):
            if number == WARM:
                found.clear()
                begin = time.perf_counter()
            if number >= WARM + 3 and time.perf_counter() - begin > SECONDS:
                break
            run(inputs)
    own: dict[str, float] = {}
    rounds: dict[Any, float] = {}
    for node, seconds in found.items():
        if name := node.meta.get(NODE):
            own[name] = min(seconds)
        elif readers := [(n, p) for n, p in node.meta.get(PORT, ()) if p in PORTS]:
            rounds |= {place: min(seconds) / len(readers) for place in readers}
    return own, rounds


def _clocked(module: Any, found: dict[Any, list[float]]) -> Any:
    """Runs the module node by node, and notes how long each took."""
    from torch import fx

    class Clock(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            begin = time.perf_counter()
            value = super().run_node(n)
            if n.op in ("call_module", "call_function", "call_method"):
                found[n].append(time.perf_counter() - begin)
            return value

    clock = Clock(module)
    names = [n.target for n in module.graph.nodes if n.op == "placeholder"]
    return lambda inputs: clock.run(*(inputs.get(str(n)) for n in names))
