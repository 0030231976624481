"""The host's part of a design: what it computes for each input, and the outputs that it reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph

if TYPE_CHECKING:
    from espalier.verilog.design.netlist import Boundary, Design


def host_rows(graph: Graph, design: Design) -> list[dict[str, Any]]:
    """One row per port of the design."""
    rows = [_row(b, "in", _prepares(graph, b)) for b in design.inputs]
    return rows + [_row(b, "out", f"reads {b.stream.fixed.label}, {_size(b)}") for b in design.outputs]


def _row(boundary: Boundary, way: str, does: str) -> dict[str, Any]:
    return {"node": boundary.node, "port": boundary.name, "way": way, "stream": boundary.stream.label,
            "beats": boundary.stream.beats, "host": does}  # fmt: skip


def _size(boundary: Boundary) -> str:
    return "×".join(map(str, boundary.shape)) or "one value"


def _prepares(graph: Graph, boundary: Boundary) -> str:
    """A text on what the host does before the first beat of an input."""
    feeding = graph.feeding(boundary.node)
    before = [n for n in graph.nodes if n in feeding]
    ops = Counter(graph.nodes[n].op for n in before if graph.nodes[n].call not in ("placeholder", "get_attr"))
    inputs = [n for n in before if graph.nodes[n].call == "placeholder"]
    computed = ", ".join(f"{n} × {op}" if n > 1 else op for op, n in ops.items())
    from_ = f" from {', '.join(inputs)}" if inputs else ""
    rounds = f"rounds to {boundary.stream.fixed.label} ({boundary.rounding.replace('_', ' ')})"
    return f"computes {computed}{from_}, then {rounds}" if computed else rounds
