"""Finds the kind of weights that dominates the average of stored bits: most of the bits, and wider than the others."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from operator import is_
from typing import Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import Use, stored, uses

Uses = tuple[tuple[str, Use], ...]

MIN_SHARE = 0.5  # of all stored bits, for a kind or a single weight to dominate
MIN_RATIO = 1.5  # of its bits per element to those of all other weights


@dataclass(frozen=True, slots=True)
class Dominant:
    """`kind`: op of the weights. `share`: of all stored bits, 0…1. `bits`: stored bits per element.

    `node`: the node that dominates alone, or empty; `node_share`: its share.
    """

    kind: str
    share: float
    bits: float
    node: str = ""
    node_share: float = 0.0


@dataclass(slots=True)
class _Sum:
    bits: int = 0
    elements: int = 0


def dominant(graph: Graph) -> Dominant | None:
    """The dominant kind of weights; None if there is none, or no weight has a format. A shared weight belongs to its
    first node.
    """
    return Dominants().of(graph)


class Dominants:
    """Computes `dominant` for successive graphs; unchanged nodes are not counted again."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Node, Uses]] = {}
        self._bits: dict[str, tuple[Weight, list[Use], int]] = {}

    def of(self, graph: Graph) -> Dominant | None:
        """The dominant kind of weights of a graph."""
        users, owners = defaultdict[str, list[Use]](list), dict[str, str]()
        self._nodes = self._read(graph)
        for node, read in self._nodes.values():
            for name, use in read:
                users[name].append(use)
                owners.setdefault(name, node.id)
        parameters = {n: u for n, u in users.items() if graph.weights[n].role == "parameter"}
        if not any(use.format for each in parameters.values() for use in each):
            return None
        self._bits = {n: self._stored(n, graph.weights[n], each) for n, each in parameters.items()}
        kinds = defaultdict[str, _Sum](_Sum)
        for name, (weight, _, bits) in self._bits.items():
            kind = kinds[graph[owners[name]].op]
            kind.bits, kind.elements = kind.bits + bits, kind.elements + weight.elements
        return _judged(kinds, {n: b for n, (_, _, b) in self._bits.items()}, owners)

    def _read(self, graph: Graph) -> dict[str, tuple[Node, Uses]]:
        """The weights that each node reads; those of a function depend on the get_attr nodes before it too."""
        cached = self._nodes
        if any(cached.get(n.id, (None,))[0] is not n for n in graph if n.call == "get_attr"):
            cached = {}
        return {n.id: old if (old := cached.get(n.id)) and old[0] is n else (n, uses(n, graph)) for n in graph}

    def _stored(self, name: str, weight: Weight, read: list[Use]) -> tuple[Weight, list[Use], int]:
        old = self._bits.get(name)
        if old and old[0] is weight and len(old[1]) == len(read) and all(map(is_, old[1], read)):
            return old
        return weight, read, sum(piece.bits for piece in stored(name, weight, read))


def dominant_fields(graph: Graph) -> dict[str, Any]:
    """`{"dominant": …}` for scores and trials; empty if no kind dominates."""
    kind = dominant(graph)
    return {"dominant": asdict(kind)} if kind else {}


def _judged(kinds: dict[str, _Sum], bits: dict[str, int], owners: dict[str, str]) -> Dominant | None:
    total, elements = sum(k.bits for k in kinds.values()), sum(k.elements for k in kinds.values())
    kind = max(kinds, key=lambda k: kinds[k].bits)
    largest_kind = kinds[kind]
    count, bits_of_kind = largest_kind.elements, largest_kind.bits
    others = (total - bits_of_kind) / (elements - count) if elements > count else 0.0
    if not total or not others or bits_of_kind < MIN_SHARE * total or bits_of_kind / count < MIN_RATIO * others:
        return None
    largest = max(bits, key=lambda n: bits[n])
    share = bits[largest] / total
    node = (owners[largest], share) if share >= MIN_SHARE else ("", 0.0)
    return Dominant(kind, bits_of_kind / total, bits_of_kind / count, *node)
