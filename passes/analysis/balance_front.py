"""Interval against area of hardware: the designs that `balance_parallelism` can give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.verilog.design.options import EmitOptions, sizes_in


@dataclass(frozen=True, slots=True)
class BalanceFrontOptions:
    """Number of designs, and sizes."""

    points: int = field(default=24, metadata={"min": 2, "max": 200, "help": "maximum number of designs"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})


@analysis("balance_front", "Area against interval", BalanceFrontOptions)
def balance_front(graph: Graph, options: BalanceFrontOptions, context: Context) -> tuple[Graph, Report]:
    """One row per design, from fully folded to the most parallel: interval, area, and its `multipliers`."""
    from espalier.verilog.lowering.parallelism import balance_front as front_of

    emit = EmitOptions(sizes=sizes_in(options.sizes))
    designs = front_of(graph, context.store, emit, options.points, lambda k, n: context.progress(k, n, "designs"))
    rows = tuple(
        {"multipliers": p.multipliers, "interval": p.interval, **p.area.counts(), "bottleneck": p.bottleneck,
         "fifos": p.fifos.counts(), "parallelism": {name: each.label for name, each in p.parallelism.items()}}
        for p in designs
    )  # fmt: skip
    unknown = sorted({module for p in designs for module in p.area.unknown})
    summary: dict[str, Any] = {"designs": len(rows)} | ({"unknown": unknown} if unknown else {})
    return graph, Report("balance_front", rows, summary)
