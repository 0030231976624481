"""Parts of a graph whose layers are rounded together: a repeated block each, or a layer outside of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import floating
from espalier.passes.recovery.layers import Layer
from espalier.passes.training.blocks import block_of


@dataclass(frozen=True, slots=True)
class Unit:
    """`nodes`: ids of its nodes, which no path leaves and enters again. `results`: nodes whose single floating-point
    result is used outside. `title`: path of the block, or id of the layer."""

    title: str
    nodes: frozenset[str]
    layers: tuple[Layer, ...]
    results: tuple[str, ...]


Skipped = list[tuple[Node, str]]


def units_of(graph: Graph, layers: Sequence[Layer]) -> tuple[list[Unit], Skipped]:
    """(units in the order in which they can run, layers that have none with the reason).

    A block is cut into its layers if it has no floating-point result of its own, or if it cannot run as a whole.
    """
    blocks: dict[str, list[Layer]] = {}
    alone: list[Layer] = []
    skipped: Skipped = []
    for layer in layers:
        paths = {block_of(n) for n in layer.nodes}
        if len(paths) == 1 and "" not in paths:
            blocks.setdefault(paths.pop(), []).append(layer)
        elif len(layer.nodes) == 1:
            alone.append(layer)
        else:
            skipped.append((layer.nodes[0], "it is called several times, not all in one block"))
    members = _members(graph, blocks)
    while True:
        units = [Unit(p, members[p], tuple(x), _results(graph, members[p])) for p, x in blocks.items()]
        units = _in_order(graph, [*units, *(_of_layer(graph, x) for x in alone)])
        wrong = _wrong(graph, units)
        if wrong is None:
            return units, skipped
        for layer in blocks.pop(wrong):
            if len(layer.nodes) == 1:
                alone.append(layer)
            else:
                skipped.append((layer.nodes[0], f"it is called several times, and {wrong} cannot run as a whole"))


def _members(graph: Graph, paths: Iterable[str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {path: set() for path in paths}
    for node in graph:
        path = block_of(node)
        if path in found and node.call not in ("placeholder", "get_attr", "output"):
            found[path].add(node.id)
    return {path: frozenset(ids) for path, ids in found.items()}


def _of_layer(graph: Graph, layer: Layer) -> Unit:
    node = layer.nodes[0]
    return Unit(node.id, frozenset((node.id,)), (layer,), _results(graph, {node.id}))


def _results(graph: Graph, ids: Set[str]) -> tuple[str, ...]:
    used = {r.node for n in graph if n.id not in ids for r in n.inputs}
    nodes = (graph.nodes[i] for i in graph.nodes if i in ids & used)
    return tuple(n.id for n in nodes if n.outputs is None and floating(n.out))


def _in_order(graph: Graph, units: list[Unit]) -> list[Unit]:
    place = {name: i for i, name in enumerate(graph.nodes)}
    return sorted(units, key=lambda u: max(place[i] for i in u.nodes))


def _wrong(graph: Graph, units: Sequence[Unit]) -> str | None:
    """The title of the first block that cannot run as a whole."""
    done: set[str] = set()
    for number, unit in enumerate(units):
        before = graph.feeding(*unit.nodes) - unit.nodes
        if len(unit.nodes) > 1 and (not unit.results or before & _behind(graph, unit.nodes)):
            return unit.title
        torn = next((u for u in units[number + 1 :] if u.nodes & (before - done)), None)
        if torn is not None:
            return torn.title
        done |= before | unit.nodes
    return None


def _behind(graph: Graph, ids: Set[str]) -> set[str]:
    """All nodes that depend on these, and these."""
    reached = set(ids)
    for node in graph:
        if any(r.node in reached for r in node.inputs):
            reached.add(node.id)
    return reached
