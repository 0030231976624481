"""Gives nodes adapters: their two matrices as weights of the graph, with values or to be drawn."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.adapters import PORT, adaptable, module_path, shapes
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import Tensor, WeightStore

Pair = tuple[NDArray[Any], NDArray[Any]]


def siblings(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """The nodes, and all other calls of their modules: an adapter belongs to a module."""
    places = {(module_path(n, graph), n.op) for n in nodes}
    return [n for n in graph if adaptable(n, graph) and (module_path(n, graph), n.op) in places]


def homes(graph: Graph) -> dict[str, str]:
    """Node → where the names of its adapter begin: its module, or itself where another op has the same."""
    found = {n.id: (module_path(n, graph), n.op) for n in graph if adaptable(n, graph)}
    ops: dict[str, set[str]] = {}
    for path, op in found.values():
        ops.setdefault(path, set()).add(op)
    return {k: path if len(ops[path]) == 1 else f"{path}.{k}" for k, (path, _) in found.items()}


def weight_of(node: Node, graph: Graph) -> Weight:
    """The weight that an adapter of the node corrects."""
    return graph.weights[weight_at(node, PORT, graph) or ""]


def placed(
    graph: Graph, wishes: Mapping[str, Adapter], values: Mapping[str, Pair], seed: int, store: WeightStore
) -> Graph:
    """The graph in which nodes have the adapters of `wishes` (node → adapter, its names still empty).

    Values: those of `values` by node; those that were there where the rank is the same; else drawn as PEFT draws them.
    """
    nodes: list[Node] = []
    weights: dict[str, Weight] = {}
    places = homes(graph)
    for name, wish in wishes.items():
        node, held = graph.nodes[name], graph.nodes[name].adapters.get(PORT)
        if held and held.rank == wish.rank and name not in values:
            nodes.append(replace(node, adapters={PORT: replace(wish, a=held.a, b=held.b)}))
            continue
        made = replace(wish, a=f"{places[name]}.lora_A", b=f"{places[name]}.lora_B")
        nodes.append(replace(node, adapters={PORT: made}))
        if made.a not in weights:
            weights |= _weights(node, made, weight_of(node, graph), values.get(name), seed, store)
    return graph.with_weights(weights).replace(*nodes)


def _weights(
    node: Node, adapter: Adapter, base: Weight, given: Pair | None, seed: int, store: WeightStore
) -> dict[str, Weight]:
    a, b = shapes(node, base, adapter.rank)
    if base.key is None:  # looked at without weights
        return {adapter.a: Weight(None, a, "float32"), adapter.b: Weight(None, b, "float32")}
    pair = given or drawn(node, a, b, adapter.a, seed)
    held = [Tensor(np.ascontiguousarray(v, np.float32), "float32") for v in pair]
    return {n: Weight(store.hold(t), t.shape, "float32") for n, t in zip((adapter.a, adapter.b), held, strict=True)}


def drawn(node: Node, a: tuple[int, ...], b: tuple[int, ...], name: str, seed: int) -> Pair:
    """A uniform in ±1/√inputs (Kaiming with a = √5) and B = 0; of an embedding A = 0 and B normal."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if node.op == "embedding":
        return np.zeros(a, np.float32), generator.standard_normal(b, np.float32)
    bound = np.float32(1 / math.sqrt(math.prod(a[1:])))
    return (generator.random(a, np.float32) * 2 - 1) * bound, np.zeros(b, np.float32)
