"""Times each layer, and the rounding of its operands in each format, on this machine, for latency budgets."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.timed.layer_times import PORTS, Times, keep, kind_of, measure

ABOUT = ("Formats are simulated on this machine: layers multiply in float. A format of an input costs the time of "
         "rounding it, a format of a stored weight nothing, and pruned weights are multiplied too.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerLatencyOptions(EvaluateOptions):
    """The timed batch, and the formats whose rounding is timed."""

    batch_size: int = field(default=16, metadata={"min": 1, "help": "batch size"})
    formats: tuple[Format, ...] = field(
        default=(), metadata={"help": "formats to time; empty: all at their usual widths"}
    )


@analysis("layer_latency", "Latency by layer", LayerLatencyOptions, timed=True)
def layer_latency(graph: Graph, options: LayerLatencyOptions, context: Context) -> tuple[Graph, Report]:
    """Seconds of each layer for a batch, and of rounding its operands in each format; cached for budgets."""
    times = measure(graph, options, options.formats or usual_formats(), context)
    keep(times)
    rows = tuple(_rows(graph, times))
    layers = sum(times.layers.get(kind_of(n), 0.0) for n in graph)
    return graph, Report("layer_latency", rows, {"batch": times.batch, "seconds": layers, "about": ABOUT})


def _rows(graph: Graph, times: Times) -> list[Row]:
    """A row for each layer, and for each format of its operands that takes time."""
    rows: list[Row] = []
    for node in graph:
        kind = kind_of(node)
        if kind not in times.layers:
            continue
        rows.append({"node": node.id, "op": node.op, "port": "", "format": "", "seconds": times.layers[kind]})
        for port in PORTS:
            seconds = ((f, times.rounding.get(f"{kind} {port} {f}")) for f in sorted(times.formats))
            rows += [{"node": node.id, "op": node.op, "port": port, "format": f, "seconds": s} for f, s in seconds if s]
    return rows
