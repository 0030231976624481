"""What the canvas shows of the choices and sizes of nodes: badges, bits, sparsity, parameters, adapters, what trains.

Follows edits node by node, so that an edit of one layer recomputes one row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.canvas.captions import MULTIPLIES
from app.canvas.hierarchy import Hierarchy
from model.graph import Graph, Node
from model.meta import BITS, Weight
from model.ops import category, quantisable

FLOATS: dict[str, str] = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_FIRST = ("weight", "data_in", "data_out", "bias")
BARS = 8


@dataclass(slots=True)
class Figures:
    """One row per node; NaN where a figure makes no sense."""

    badges: list[str]
    bits: NDArray[np.float64]
    sparsity: NDArray[np.float64]
    parameters: NDArray[np.float64]
    adapters: list[str]
    trains: NDArray[np.float64]
    _groups: dict[int, GroupFigures] = field(default_factory=dict)
    _weights: dict[str, Weight] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Figures:
        """The figures of all nodes."""
        size = len(graph)
        bits, pruned, parameters, trains = (np.full(size, np.nan) for _ in range(4))
        figures = cls([""] * size, bits, pruned, parameters, [""] * size, trains, _weights=graph.weights)
        for i, node in enumerate(graph):
            figures._set(i, node, graph)
        return figures

    def update(self, graph: Graph, ids: Iterable[str], index: dict[str, int]) -> None:
        """Recompute some rows."""
        for name in ids:
            self._set(index[name], graph.nodes[name], graph)
        if self._weights is not graph.weights:  # freezing changes weights and no node
            self._weights = graph.weights
            for name, i in index.items():
                self.trains[i] = trains(graph.nodes[name], graph)
        self._groups.clear()

    def _set(self, i: int, node: Node, graph: Graph) -> None:
        self.badges[i] = badge(node)
        self.bits[i] = weight_bits(node)
        self.sparsity[i] = sparsity(node)
        self.parameters[i] = parameters(node, graph) if node.weights else np.nan
        self.adapters[i] = adapter(node)
        self.trains[i] = trains(node, graph)

    def group(self, tree: Hierarchy, number: int) -> GroupFigures:
        """The figures of a whole group."""
        found = self._groups.get(number)
        if found is None:
            found = self._groups[number] = self._sum(tree.members(number))
        return found

    def _sum(self, members: list[int]) -> GroupFigures:
        rows = np.array(sorted(members), np.int64)
        bits = self.bits[rows] if len(rows) else np.zeros(0)
        bits = bits[~np.isnan(bits)]
        parts = np.array_split(bits, min(BARS, len(bits))) if len(bits) else []
        total = float(np.nansum(self.parameters[rows])) if len(rows) else 0.0
        return GroupFigures(int(total), tuple(float(p.mean()) for p in parts), rows)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Parameters of a group, the bits of its layers (averaged into a few bars), and its rows."""

    parameters: int
    bars: tuple[float, ...]
    rows: NDArray[np.int64]


def badge(node: Node) -> str:
    """The format on a node's badge; the float of a node that multiplies or looks up and could be quantised.

    That of a bias says so: all else of its node is float.
    """
    for port in _FIRST:
        if port in node.precision:
            label = node.precision[port].label
            return f"bias {label}" if port == "bias" else label
    for precision in node.precision.values():
        return precision.label
    ports = quantisable(node) if category(node) in MULTIPLIES else ()
    meta = next((node.ports[p] for p in _FIRST if p in ports), None)
    return FLOATS.get(meta.dtype, "") if meta else ""


def weight_bits(node: Node) -> float:
    """Bits of one weight of a layer that multiplies, or that has a format for it."""
    if "weight" in node.precision:
        return float(node.precision["weight"].format.bits)
    meta = node.ports.get("weight")
    return (
        float(BITS.get(meta.dtype, 32))
        if meta and category(node) in MULTIPLIES and "weight" in quantisable(node)
        else np.nan
    )


def sparsity(node: Node) -> float:
    """The pruned share of a layer's weight, as it came out; where only activations are pruned, theirs."""
    chosen = node.sparsity.get("weight") or next(iter(node.sparsity.values()), None)
    meta = node.ports.get("weight")
    if chosen and meta and chosen.mask is not None and "weight" in node.sparsity:
        return chosen.zeros / max(meta.elements({}), 1)
    return float(chosen.ratio) if chosen else np.nan


def adapter(node: Node) -> str:
    """The adapter on a node's second badge."""
    return next((held.label for held in node.adapters.values()), "")


def trains(node: Node, graph: Graph) -> float:
    """0: the node's parameters are frozen; 1: some train; 2: its adapter does; NaN: it has none."""
    own = [w for name in node.weights.values() if (w := graph.weights.get(name)) and w.role == "parameter"]
    if node.adapters:
        return 2.0
    return float(any(w.trainable for w in own)) if own else np.nan


def parameters(node: Node, graph: Graph) -> float:
    """Elements of the node's own parameters."""
    named = (graph.weights.get(w) for w in node.weights.values())
    return float(sum(w.elements for w in named if w and w.role == "parameter")) or np.nan


def amount(value: float) -> str:
    """`16 512`, `198 k`, `4.4 M`, `7.2 G`, with thin spaces."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e5)):
        if value >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    return f"{value:,.0f}".replace(",", "\u2009")


def counts(nodes: int, parameters: int, twins: int) -> tuple[str, ...]:
    """`27 nodes · 198 k parameters · ×12 identical`, then ever shorter."""
    some = f"{amount(nodes)} node{'s' * (nodes != 1)}"
    same = f"×{twins} identical" if twins > 1 else ""
    size = f"{amount(parameters)} parameters" if parameters else ""
    tries = ((some, size, same), (some, same), (some, f"×{twins}" if same else ""), (f"×{twins}",) if same else (some,))
    return tuple(dict.fromkeys(" · ".join(filter(None, t)) for t in tries))
