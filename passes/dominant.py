"""What keeps the average of stored bits up: one kind of weights that holds most of them and is wider than the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from operator import is_
from typing import Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import Use, stored, uses

Uses = tuple[tuple[str, Use], ...]

MOST = 0.5  # of all stored bits, from which a kind, or one weight, dominates
WIDER = 1.5  # times the bits an element of all other weights


@dataclass(frozen=True, slots=True)
class Dominant:
    """`kind`: the op whose weights they are. `share`: of all stored bits, 0…1. `bits`: an element, stored.

    `node`: the one that holds so much by itself, empty where none does; `node_share`: its share.
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
    """The kind of weights that holds the average of stored bits up; None where none has a format, or none does so.

    A weight that several nodes share belongs to the first.
    """
    return Dominants().of(graph)


class Dominants:
    """The same of one graph after another: what an edit left alone is not counted again."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Node, Uses]] = {}
        self._bits: dict[str, tuple[Weight, list[Use], int]] = {}

    def of(self, graph: Graph) -> Dominant | None:
        """As `dominant`."""
        users, owners = defaultdict[str, list[Use]](list), dict[str, str]()
        self._nodes = self._read(graph)
        for node, read in self._nodes.values():
            for name, use in read:
                users[name].append(use)
                owners.setdefault(name, node.id)
        held = {n: u for n, u in users.items() if graph.weights[n].role == "parameter"}
        if not any(use.format for each in held.values() for use in each):
            return None
        self._bits = {n: self._stored(n, graph.weights[n], each) for n, each in held.items()}
        kinds = defaultdict[str, _Sum](_Sum)
        for name, (weight, _, bits) in self._bits.items():
            kind = kinds[graph[owners[name]].op]
            kind.bits, kind.elements = kind.bits + bits, kind.elements + weight.elements
        return _judged(kinds, {n: b for n, (_, _, b) in self._bits.items()}, owners)

    def _read(self, graph: Graph) -> dict[str, tuple[Node, Uses]]:
        """What each node reads. That of a function hangs on the get_attr nodes before it as well."""
        held = self._nodes
        if any(held.get(n.id, (None,))[0] is not n for n in graph if n.call == "get_attr"):
            held = {}
        return {n.id: old if (old := held.get(n.id)) and old[0] is n else (n, uses(n, graph)) for n in graph}

    def _stored(self, name: str, weight: Weight, read: list[Use]) -> tuple[Weight, list[Use], int]:
        old = self._bits.get(name)
        if old and old[0] is weight and len(old[1]) == len(read) and all(map(is_, old[1], read)):
            return old
        return weight, read, sum(piece.bits for piece in stored(name, weight, read))


def dominant_fields(graph: Graph) -> dict[str, Any]:
    """`{"dominant": …}` for scores and trials; empty where nothing holds the average up."""
    found = dominant(graph)
    return {"dominant": asdict(found)} if found else {}


def _judged(kinds: dict[str, _Sum], bits: dict[str, int], owners: dict[str, str]) -> Dominant | None:
    total, elements = sum(k.bits for k in kinds.values()), sum(k.elements for k in kinds.values())
    kind = max(kinds, key=lambda k: kinds[k].bits)
    most = kinds[kind]
    rest = (total - most.bits) / (elements - most.elements) if elements > most.elements else 0.0
    if not total or not rest or most.bits < MOST * total or most.bits / most.elements < WIDER * rest:
        return None
    largest = max(bits, key=lambda n: bits[n])
    alone = bits[largest] / total
    node = (owners[largest], alone) if alone >= MOST else ("", 0.0)
    return Dominant(kind, most.bits / total, most.bits / most.elements, *node)
