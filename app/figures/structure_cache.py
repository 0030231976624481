"""Cache of a model's structure (sets of units) for the last graph."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.passes.structure.sets import Structure, structure_of

_SAME = ("op", "target", "args", "kwargs", "ports", "weights", "attrs")


class StructureCache:
    """Caches the structure of the last graph; formats and masks do not change it."""

    def __init__(self) -> None:
        self._last: tuple[Graph, Structure] | None = None

    def of(self, graph: Graph) -> Structure:
        """The structure of a graph; raises PassError for a recorded one."""
        last = self._last
        if last is None or not same_facts(last[0], graph):
            self._last = last = (graph, structure_of(graph))
        return last[1]


def same_facts(one: Graph, other: Graph) -> bool:
    """Whether two graphs differ at most in choices and values; compares identities, so it is fast between edits."""
    if one is other:
        return True
    if one.runs != other.runs or len(one) != len(other):
        return False
    shapes = one.weights is other.weights or all(
        w.shape == other.weights[k].shape for k, w in one.weights.items() if k in other.weights
    )
    return shapes and all(_same(a, b) for a, b in zip(one, other, strict=True))


def _same(a: Node, b: Node) -> bool:
    return a is b or (a.id == b.id and all(getattr(a, f) is getattr(b, f) for f in _SAME))


class Same:
    """A hashable key that compares by identity of its value."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


STRUCTURES = StructureCache()
