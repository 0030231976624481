"""Inserts LoRA adapters into a graph, with given or newly initialised matrices."""

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
    """The nodes and all other calls of their modules: an adapter belongs to a module."""
    modules = {(module_path(n, graph), n.op) for n in nodes}
    return [n for n in graph if adaptable(n, graph) and (module_path(n, graph), n.op) in modules]


def name_prefixes(graph: Graph) -> dict[str, str]:
    """Node id → prefix of its adapter's names: the module path, extended by the id if ops share the path."""
    modules = {n.id: (module_path(n, graph), n.op) for n in graph if adaptable(n, graph)}
    ops: dict[str, set[str]] = {}
    for path, op in modules.values():
        ops.setdefault(path, set()).add(op)
    return {k: path if len(ops[path]) == 1 else f"{path}.{k}" for k, (path, _) in modules.items()}


def weight_of(node: Node, graph: Graph) -> Weight:
    """The weight to which an adapter of the node is added."""
    return graph.weights[weight_at(node, PORT, graph) or ""]


def insert_adapters(
    graph: Graph, adapters: Mapping[str, Adapter], values: Mapping[str, Pair], seed: int, store: WeightStore
) -> Graph:
    """Set the adapters of nodes. `adapters`: node id → adapter without names of matrices.

    Matrices come from `values` by node id, otherwise from an old adapter of the same rank, otherwise from PEFT's
    initialisation.
    """
    nodes: list[Node] = []
    weights: dict[str, Weight] = {}
    prefixes = name_prefixes(graph)
    for name, adapter in adapters.items():
        node, old = graph.nodes[name], graph.nodes[name].adapters.get(PORT)
        if old and old.rank == adapter.rank and name not in values:
            nodes.append(replace(node, adapters={PORT: replace(adapter, a=old.a, b=old.b)}))
            continue
        new = replace(adapter, a=f"{prefixes[name]}.lora_A", b=f"{prefixes[name]}.lora_B")
        nodes.append(replace(node, adapters={PORT: new}))
        if new.a not in weights:
            weights |= _weights(node, new, weight_of(node, graph), values.get(name), seed, store)
    return graph.with_weights(weights).replace(*nodes)


def _weights(
    node: Node, adapter: Adapter, base: Weight, values: Pair | None, seed: int, store: WeightStore
) -> dict[str, Weight]:
    a, b = shapes(node, base, adapter.rank)
    if base.key is None:  # a model without weights
        return {adapter.a: Weight(None, a, "float32"), adapter.b: Weight(None, b, "float32")}
    pair = values or initial_pair(node, a, b, adapter.a, seed)
    tensors = [Tensor(np.ascontiguousarray(v, np.float32), "float32") for v in pair]
    return {n: Weight(store.hold(t), t.shape, "float32") for n, t in zip((adapter.a, adapter.b), tensors, strict=True)}


def initial_pair(node: Node, a: tuple[int, ...], b: tuple[int, ...], name: str, seed: int) -> Pair:
    """PEFT's initial matrices: A uniform in ±1/√inputs (Kaiming with a = √5), B = 0; of embeddings A = 0, B normal."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if node.op == "embedding":
        return np.zeros(a, np.float32), generator.standard_normal(b, np.float32)
    bound = np.float32(1 / math.sqrt(math.prod(a[1:])))
    return (generator.random(a, np.float32) * 2 - 1) * bound, np.zeros(b, np.float32)
