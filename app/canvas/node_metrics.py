"""Metrics of nodes for the canvas: badges, bits, sparsity, parameters, adapters, trainable state.

Updated node by node, so that an edit of one layer recomputes one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.figures.captions import MULTIPLIES
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS, Weight
from espalier.model.graph.ops import base_port, category, quantisable

FLOATS: dict[str, str] = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_FIRST = ("weight", "data_in", "data_out", "bias")
_SHORT = {"data_in": "in", "data_out": "out"}
_ORDER = {"data_in": 0, "weight": 2, "bias": 3, "data_out": 4}  # of the rows of ports; others come after the inputs
BARS = 8


@dataclass(slots=True)
class NodeMetrics:
    """One row per node; NaN where a metric does not apply."""

    badges: list[str]
    bits: NDArray[np.float64]
    sparsity: NDArray[np.float64]
    parameters: NDArray[np.float64]
    adapters: list[str]
    trains: NDArray[np.float64]
    choices: NDArray[np.int64]
    muted: NDArray[np.int64]
    _groups: dict[int, GroupMetrics] = field(default_factory=dict)
    _weights: dict[str, Weight] = field(default_factory=dict)
    _differ: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> NodeMetrics:
        """The metrics of all nodes."""
        size = len(graph)
        bits, pruned, parameters, trains = (np.full(size, np.nan) for _ in range(4))
        figures = cls([""] * size, bits, pruned, parameters, [""] * size, trains, np.zeros(size, np.int64),
                      np.zeros(size, np.int64), _weights=graph.weights)  # fmt: skip
        for i, node in enumerate(graph):
            figures._set(i, node, graph)
        return figures

    def update(self, graph: Graph, ids: Iterable[str], index: dict[str, int]) -> None:
        """Recompute some rows."""
        for name in ids:
            self._set(index[name], graph.nodes[name], graph)
        if self._weights is not graph.weights:  # freezing changes weights, but no node
            self._weights = graph.weights
            for name, i in index.items():
                self.trains[i] = trains(graph.nodes[name], graph)
        self._groups.clear()
        self._differ.clear()

    def _set(self, i: int, node: Node, graph: Graph) -> None:
        self.badges[i] = badge(node)
        self.bits[i] = weight_bits(node)
        self.sparsity[i] = sparsity(node)
        self.parameters[i] = parameters(node, graph) if node.weights else np.nan
        self.adapters[i] = adapter(node)
        self.trains[i] = trains(node, graph)
        self.choices[i] = choices(node)
        self.muted[i] = node.annotation.muted

    def twins(self, tree: Hierarchy, number: int) -> tuple[int, bool]:
        """(number of siblings of a group with its structure, itself included; whether their choices differ)."""
        count = tree.groups[number].twins
        if count > 1 and number not in self._differ:
            alike = twins_of(tree, number)
            self._differ.update(dict.fromkeys(alike, differ(tree, alike, self.choices.__getitem__)))
        return count, self._differ.get(number, False)

    @property
    def answered(self) -> dict[int, bool]:
        """Group → whether its choices differ from its twins', for the groups queried since the last update."""
        return dict(self._differ)

    def group(self, tree: Hierarchy, number: int) -> GroupMetrics:
        """The metrics of a whole group."""
        metrics = self._groups.get(number)
        if metrics is None:
            metrics = self._groups[number] = self._sum(tree.members(number))
        return metrics

    def _sum(self, members: list[int]) -> GroupMetrics:
        rows = np.array(sorted(members), np.int64)
        bits = self.bits[rows] if len(rows) else np.zeros(0)
        bits = bits[~np.isnan(bits)]
        parts = np.array_split(bits, min(BARS, len(bits))) if len(bits) else []
        total = float(np.nansum(self.parameters[rows])) if len(rows) else 0.0
        return GroupMetrics(int(total), tuple(float(p.mean()) for p in parts), rows)


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """Parameters of a group, the weight bits of its layers (averaged into at most BARS bars), and its rows."""

    parameters: int
    bars: tuple[float, ...]
    rows: NDArray[np.int64]


def badge(node: Node) -> str:
    """The badge of a node: its format, or its float type if it is an unquantised linear, matmul or embedding node.

    The format of the weight, or of an input of a node without weights; any other names its port.
    """
    ports = [*(p for p in _FIRST if p in node.precision), *node.precision]
    if ports:
        port, label = ports[0], node.precision[ports[0]].label
        plain = port == "weight" or ("weight" not in node.ports and port != "data_out")
        return label if plain else f"{_SHORT.get(port, port)} {label}"
    ports = quantisable(node) if category(node) in MULTIPLIES else ()
    meta = next((node.ports[p] for p in _FIRST if p in ports), None)
    return FLOATS.get(meta.dtype, "") if meta else ""


def port_formats(node: Node) -> tuple[tuple[str, str], ...]:
    """(label, format or float type) of each port of a node that can have a format or has one, inputs first."""
    ports = sorted({*quantisable(node), *node.precision}, key=lambda p: (_ORDER.get(base_port(p), 1), p))
    rows = [(p, node.precision[p].label if p in node.precision else _float(node, p)) for p in ports]
    return tuple((_SHORT.get(p, p.replace("data_in_", "in ").replace("data_out_", "out ")), text) for p, text in rows)


def _float(node: Node, port: str) -> str:
    meta = node.ports.get(port)
    return FLOATS.get(meta.dtype, meta.dtype) if meta else ""


def choices(node: Node) -> int:
    """A hash of formats, sparsities and adapters, independent of the keys of scales and masks; 0: none."""
    if not (node.precision or node.sparsity or node.adapters):
        return 0
    formats = tuple(sorted((p, str(v.format)) for p, v in node.precision.items()))
    pruned = tuple(sorted((p, round(v.ratio, 4)) for p, v in node.sparsity.items()))
    return hash((formats, pruned, adapter(node)))


def twins_of(tree: Hierarchy, number: int) -> list[int]:
    """The siblings of a group with its structure, itself included."""
    kids = (~c for c in tree.groups[tree.groups[number].parent].children if c < 0)
    return [k for k in kids if tree.groups[k].key == tree.groups[number].key]


def differ(tree: Hierarchy, alike: Iterable[int], choices_of: Callable[[int], int]) -> bool:
    """Whether groups of the same structure differ in choices, node by node in graph order."""
    return len({tuple(map(choices_of, sorted(tree.members(k)))) for k in alike}) > 1


def weight_bits(node: Node) -> float:
    """Bits of a weight element; NaN for a node without quantisable weight."""
    if "weight" in node.precision:
        return float(node.precision["weight"].format.bits)
    meta = node.ports.get("weight")
    return (
        float(BITS.get(meta.dtype, 32))
        if meta and category(node) in MULTIPLIES and "weight" in quantisable(node)
        else np.nan
    )


def sparsity(node: Node) -> float:
    """The actual pruned share of the weight, else the configured one of activations; NaN if not pruned."""
    chosen = node.sparsity.get("weight") or next(iter(node.sparsity.values()), None)
    meta = node.ports.get("weight")
    if chosen and meta and chosen.mask is not None and "weight" in node.sparsity:
        return chosen.zeros / max(meta.elements({}), 1)
    return float(chosen.ratio) if chosen else np.nan


def adapter(node: Node) -> str:
    """The label of the adapter, for a node's second badge."""
    return next((a.label for a in node.adapters.values()), "")


def trains(node: Node, graph: Graph) -> float:
    """0: frozen; 1: some parameters train; 2: an adapter trains; NaN: no parameters."""
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


def counts(nodes: int, parameters: int, twins: tuple[int, bool]) -> tuple[str, ...]:
    """`27 nodes · 198 k parameters · ×12 identical` and shorter forms; `×12, differ` if the choices of twins differ."""
    some = tr("{} node", amount(nodes)) if nodes == 1 else tr("{} nodes", amount(nodes))
    many, unlike = twins
    same = (tr("×{}, choices differ", many) if unlike else tr("×{} identical", many)) if many > 1 else ""
    short = (tr("×{}, differ", many) if unlike else f"×{many}") if same else ""
    size = tr("{} parameters", amount(parameters)) if parameters else ""
    tries = ((some, size, same), (some, same), (some, short), (short,) if same else (some,))
    return tuple(dict.fromkeys(" · ".join(filter(None, t)) for t in tries))
