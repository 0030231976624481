"""Which nodes have a box: not shape arithmetic, constants used once, nor, unless wanted, operations on shapes.

An edge runs through a hidden operation on shapes, from what it rearranges to what uses it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from espalier.app.canvas.hierarchy import Tensor
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import spec

Sources = Sequence[tuple[Tensor, ...]]  # per node, its input tensors


def hidden_shapes(graph: Graph, sources: Sources, kept: Collection[str] = ()) -> dict[int, Tensor]:
    """Number of each operation that only moves the values of one tensor → that tensor, in front of all such.

    Those with a user's title, with several results, and those of `kept` are not among them.
    """
    scalar = _scalars(graph)
    moves = {op: (row := spec(op)).moves and row.category == "shape" for op in {n.op for n in graph}}
    through: dict[int, Tensor] = {}
    for v, node in enumerate(graph):
        if not moves[node.op] or node.call != "call_function" or node.annotation.title or node.id in kept:
            continue
        data = [t for t in sources[v] if not scalar[t[0]]]
        if len(data) == 1 and "data_out_1" not in node.ports:
            through[v] = through.get(data[0][0], data[0])
    return through


def resolved(sources: Sources, through: dict[int, Tensor]) -> list[tuple[Tensor, ...]]:
    """The input tensors of every node with hidden operations skipped."""
    if not through:
        return list(sources)
    return [tuple(dict.fromkeys(through.get(t[0], t) for t in inputs)) for inputs in sources]


def with_boxes(graph: Graph, sources: Sources, through: Collection[int], show_scalars: bool) -> list[bool]:
    """Whether each node has a box; `sources` with hidden operations skipped."""
    if show_scalars:
        return [v not in through for v in range(len(sources))]
    shown = [not scalar and v not in through for v, scalar in enumerate(_scalars(graph))]
    constants = {v: 0 for v, n in enumerate(graph) if n.call == "get_attr"}
    if constants:
        for inputs, visible in zip(sources, shown, strict=True):
            for u in {u for u, _ in inputs} if visible else ():
                if u in constants:
                    constants[u] += 1
        for v, uses in constants.items():
            shown[v] = uses > 1
    return shown


def _scalars(graph: Graph) -> list[bool]:
    """Whether each node only computes sizes."""
    implicit = {op: spec(op).kind == "implicit_func" for op in {n.op for n in graph}}
    return [_is_scalar(n, implicit[n.op]) for n in graph]


def _is_scalar(node: Node, implicit: bool) -> bool:
    return implicit and "data_out" not in node.ports
