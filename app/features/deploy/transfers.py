"""What devices send one another, as the edges of the graph show it. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from espalier.app.canvas.transfers import Transfer
from espalier.app.number_text import data_size
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Node
from espalier.passes.sharding.drawn import Moved, Sent, moves_at

Known = tuple[Node, tuple[Node, ...], tuple[Transfer, ...]]  # a node, the nodes that it reads, its transfers


def transfers_of(moved: Iterable[Moved]) -> tuple[Transfer, ...]:
    """A transfer for each collective of the tensors that are redistributed."""
    return tuple(each for move in moved for each in _transfers(move))


@dataclass(frozen=True, slots=True)
class PlacedTransfers:
    """The transfers of a graph with placements, by node: those of the next state of the graph follow from them, but at
    nodes that have changed or that read changed ones. Nodes are values, shared by successive states."""

    symbols: Mapping[str, int]
    known: Mapping[str, Known]

    def changed(self, graph: Graph) -> list[Node]:
        """The nodes of another state whose transfers are not known."""
        if graph.symbols != self.symbols:
            return list(graph)
        known, nodes = self.known, graph.nodes
        return [n for n in graph if (k := known.get(n.id)) is None or k[0] is not n
                or any(nodes.get(s.id) is not s for s in k[1])]  # fmt: skip

    def after(self, graph: Graph, changed: Iterable[Node]) -> PlacedTransfers:
        """Those of another state, whose changed nodes are known."""
        known: dict[str, Known] = dict(self.known)
        for node in changed:
            known[node.id] = _known(node, graph)
        return PlacedTransfers(graph.symbols, {n.id: known[n.id] for n in graph})

    @property
    def all(self) -> tuple[Transfer, ...]:
        """All transfers."""
        return tuple(t for _, _, transfers in self.known.values() for t in transfers)


NONE_PLACED = PlacedTransfers({}, {})


def _known(node: Node, graph: Graph) -> Known:
    read = {ref.node: graph.nodes[ref.node] for ref in node.inputs}
    return node, tuple(read.values()), transfers_of(moves_at(node, graph))


def _transfers(move: Moved) -> Iterator[Transfer]:
    what = f"{move.weight}: " if move.weight else ""
    placements = f"{what}{move.before} → {move.after}"
    for sent, of in [*((s, placements) for s in move.sent), *((s, tr("{}gradient", what)) for s in move.gradient)]:
        told = f"{of} · {sent.collective} {_size(sent, move.format)}"
        yield Transfer(move.source, move.user, sent.collective, sent.bytes * sent.times, told)


def _size(sent: Sent, fmt: str) -> str:
    """`1.50 MiB`, with what a format makes of it: `1.50 MiB, 0.38 MiB as int8`."""
    times = f"{sent.times} × " if sent.times > 1 else ""
    wire = tr(", {}{} as {}", times, data_size(sent.wire), fmt) if fmt and sent.wire != sent.bytes else ""
    return f"{times}{data_size(sent.bytes)}{wire}"
