"""Bytes of the key/value cache at the context length that its nodes were given."""

from __future__ import annotations

import math

from espalier.model.graph.caches import CONTEXT, OP, SEQUENCES, cache_bits, cache_nodes, caches, float_bits
from espalier.model.graph.graph import Graph, Node
from espalier.passes.costs.base import COSTS, Cost, Shares

TOKENS = 4096  # of a text, for a model whose caches were given no context length


def cache_bytes(node: Node, graph: Graph) -> float:
    """Bytes of a cache with its format; 0 for other nodes."""
    if node.op != OP:
        return 0.0
    context, sequences = _sizes(node)
    return cache_bits(node, graph, context, sequences) / 8


def float_bytes(graph: Graph) -> float:
    """Bytes of the caches that have no `kv_cache` node, in the type of their tensors."""
    known = next(cache_nodes(graph), None)
    context, sequences = (TOKENS, 1) if known is None else _sizes(known)
    return sum(float_bits(c, graph, context, sequences) / 8 for c in caches(graph) if c.node is None)


def total(graph: Graph) -> float:
    """Bytes of all caches; NaN for a graph without any."""
    found = sum(cache_bytes(n, graph) for n in cache_nodes(graph)) + float_bytes(graph)
    return found or math.nan


def _sizes(node: Node) -> tuple[int, int]:
    """(tokens of a text, texts)."""
    context, sequences = node.attrs.get(CONTEXT), node.attrs.get(SEQUENCES)
    return context if isinstance(context, int) else TOKENS, sequences if isinstance(sequences, int) else 1


COSTS.add("kv_cache_bytes", Cost(
    "kv_cache_bytes", "KV cache", "bytes", "low",
    f"bytes of keys and values, with their scales, of {TOKENS} tokens or of the context length given to kv_cache",
    of=lambda graph, score: total(graph),
    shares=Shares(
        node=cache_bytes,
        ports=("data_out",),
        figure=lambda found, graph: found + float_bytes(graph),
        amount=lambda figure, graph: figure - float_bytes(graph),
    ),
))  # fmt: skip
