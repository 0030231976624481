"""Keys and values that a decoder caches: where they arise in a graph, and the `kv_cache` nodes that stand for them.

A run over a whole text equals decoding with a quantised cache if an entry's format depends on its own token alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from espalier.model.formats.independent_rows import independent_rows
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import BITS, TensorMeta
from espalier.model.graph.node import out_port
from espalier.model.graph.views import SCALES, STATIC, view_at

Part = Literal["key", "value"]
PARTS: tuple[Part, ...] = ("key", "value")
OP, ATTENTION, TARGET = "kv_cache", "scaled_dot_product_attention", "aten.clone.default"
PART, WINDOW, CONTEXT, SEQUENCES = "part", "window", "context", "sequences"  # attributes of a kv_cache node
_REPEATS = ("view", "reshape", "expand", "unsqueeze", "clone", "contiguous", "slice", "repeat_interleave")
_EXPANDS = ("expand", "expand_as", "broadcast_to")
_COMPARISONS, _TRIANGLES = ("lt", "le", "gt", "ge"), ("tril", "triu")


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys or values that a cache holds.

    `source`: [batch, heads, tokens, size], before heads are repeated for groups of queries. `readers`: (node, position
    of the argument) that take it. `attentions`: those that read it, of which there are several where layers share it.
    `window`: number of tokens that are held; None for all. `node`: its `kv_cache` node, if there is one.
    """

    part: Part
    source: Ref
    readers: tuple[tuple[str, int], ...]
    attentions: tuple[str, ...]
    window: int | None
    node: str | None = None


def caches(graph: Graph) -> tuple[Cache, ...]:
    """The caches of the causal attentions of a graph, keys before values, in its order; none of latent attentions."""
    found: dict[tuple[Ref, Part], Cache] = {}
    masks: dict[str, tuple[bool, int | None]] = {}
    for node in graph:
        if node.op != ATTENTION or len(node.args) < 3 or not _attends_to_itself(node):
            continue
        mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        compares, window = _mask(mask.node, graph, masks) if isinstance(mask, Ref) else (False, None)
        if not (compares or _is_causal(node)) or _is_latent(node, graph):
            continue
        for position, part in enumerate(PARTS, 1):
            source, reader = _source(node, position, graph)
            same = found.get((source, part))
            if same is not None:
                readers = tuple(dict.fromkeys((*same.readers, reader)))
                found[source, part] = replace(same, readers=readers, attentions=(*same.attentions, node.id))
                continue
            own = source.node if graph.nodes[source.node].op == OP else None
            found[source, part] = Cache(part, source, (reader,), (node.id,), window, own)
    return tuple(found.values())


def _attends_to_itself(node: Node) -> bool:
    """Whether queries and keys are of the same tokens, and values have four axes."""
    query, key, value = (node.ports.get(p) for p in ("data_in", "weight", "weight_1"))
    if query is None or key is None or value is None or not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        return False
    return query.shape[-2] == key.shape[-2] == value.shape[-2]


def _mask(name: str, graph: Graph, known: dict[str, tuple[bool, int | None]]) -> tuple[bool, int | None]:
    """(whether a mask compares positions, the tokens that it lets a query see if it limits them)."""
    if name not in known:
        behind = graph.feeding(name)
        known[name] = any(_compares_positions(graph.nodes[n]) for n in behind), _window(behind, graph)
    return known[name]


def _compares_positions(node: Node) -> bool:
    """Whether a node compares positions of queries and keys, or cuts a triangle."""
    return node.op in _TRIANGLES or (node.op in _COMPARISONS and len(node.inputs) == 2)


def _is_causal(node: Node) -> bool:
    return bool(node.args[5] if len(node.args) > 5 else node.kwargs.get("is_causal", False))


def _is_latent(node: Node, graph: Graph) -> bool:
    """Whether a part of the keys is expanded over heads, as of multi-head latent attention.

    Its cache holds what keys and values are computed from (DeepSeek-V2, https://arxiv.org/abs/2405.04434, 2.1).
    """
    source, _ = _source(node, 1, graph)
    keys, todo, seen = _meta(source, graph), [source.node], set[str]()
    while keys is not None and todo:
        each = graph.nodes[todo.pop()]
        if each.id in seen or each.weights:  # no further than the projections
            continue
        seen.add(each.id)
        taken = _meta(each.inputs[0], graph) if each.op in _EXPANDS and each.inputs else None
        if taken is not None and each.out is not None and _has_fewer_heads(taken, each.out):
            few, all_ = taken.shape[-1], keys.shape[-1]
            if isinstance(few, int) and isinstance(all_, int) and few < all_:
                return True
        todo += [ref.node for ref in each.inputs]
    return False


def _source(node: Node, position: int, graph: Graph) -> tuple[Ref, tuple[str, int]]:
    """(the keys or values with the fewest heads on the way to an attention, who reads them there)."""
    ref = node.args[position]
    assert isinstance(ref, Ref)
    source, reader = ref, (node.id, position)
    meta = _meta(ref, graph)
    while meta is not None and (before := graph.nodes[ref.node]).op in _REPEATS and before.outputs is None:
        first = before.args[0] if before.args else None
        if not isinstance(first, Ref):
            break
        ref, taken = first, _meta(first, graph)
        if taken is not None and _has_fewer_heads(taken, meta):
            source, reader, meta = ref, (before.id, 0), taken
    return source, reader


def _has_fewer_heads(taken: TensorMeta, meta: TensorMeta) -> bool:
    """Whether a tensor holds the same tokens for fewer heads."""
    if len(taken.shape) != 4 or taken.shape[-2:] != meta.shape[-2:]:
        return False
    few, many = taken.shape[1], meta.shape[1]
    return isinstance(few, int) and isinstance(many, int) and few < many


def _meta(ref: Ref, graph: Graph) -> TensorMeta | None:
    return graph.nodes[ref.node].ports.get(out_port(ref.output))


def _window(behind: set[str], graph: Graph) -> int | None:
    """The tokens that a mask lets a query see, where it compares a position with another one less a constant."""
    found: list[int] = []
    for name in behind:
        node = graph.nodes[name]
        if node.op in _COMPARISONS:
            for ref in node.inputs:
                before = graph.nodes[ref.node]
                size = before.args[1] if before.op in ("sub", "add") and len(before.args) > 1 else None
                if isinstance(size, int) and not isinstance(size, bool) and abs(size) > 1:
                    found.append(abs(size) + (node.op in ("ge", "le")))
    return min(found, default=None)


# -- nodes


def with_node(graph: Graph, cache: Cache, **attrs: int | str) -> tuple[Graph, str]:
    """(the graph with a `kv_cache` node for a cache, its id); raises KeyError for a cache of another graph."""
    source, meta = graph.nodes[cache.source.node], _meta(cache.source, graph)
    assert meta is not None
    name = _free(f"{cache.attentions[0]}_{cache.part}_cache", graph)
    kept: dict[str, int | str] = {PART: cache.part} | ({} if cache.window is None else {WINDOW: cache.window})
    path = graph.nodes[cache.attentions[0]].module_path
    node = Node(name, OP, "call_function", TARGET, (cache.source,), ports={"data_in": meta, "data_out": meta},
                attrs={**kept, **attrs}, module_path=path, source=source.source)  # fmt: skip
    nodes: dict[str, Node] = {}
    readers = dict[str, list[int]]()
    for reader, position in cache.readers:
        readers.setdefault(reader, []).append(position)
    for each in graph:
        nodes[each.id] = _reading(each, readers[each.id], Ref(name)) if each.id in readers else each
        if each.id == source.id:
            nodes[name] = node
    return replace(graph, nodes=nodes), name


def _free(wish: str, graph: Graph) -> str:
    while wish in graph.nodes:
        wish += "_"
    return wish


def _reading(node: Node, positions: list[int], ref: Ref) -> Node:
    """The node with another tensor at some arguments."""
    return replace(node, args=tuple(ref if i in positions else a for i, a in enumerate(node.args)))


def cache_nodes(graph: Graph) -> Iterator[Node]:
    """The `kv_cache` nodes, in the graph's order."""
    return (n for n in graph if n.op == OP)


# -- formats


def waits_for_scale(node: Node) -> bool:
    """Whether an entry of a cache depends on other tokens until its scale is given (calibrated)."""
    chosen = node.precision.get("data_out") if node.op == OP else None
    if chosen is None or chosen.scale is not None or not chosen.format.rowwise:
        return False
    return node.attrs.get(SCALES) in STATIC or independent_rows(chosen.format) != 1


# -- bytes


def cache_bits(node: Node, graph: Graph, context: int, sequences: int) -> int:
    """Stored bits of a `kv_cache` node for `sequences` texts of `context` tokens: codes and scales, or the tensor's
    own type without a format. Heads are those of keys and values, not those of queries."""
    meta, window = node.ports["data_out"], node.attrs.get(WINDOW)
    shape = _held(meta, window if isinstance(window, int) else None, graph, context, sequences)
    chosen = node.precision.get("data_out")
    if chosen is None:
        return math.prod(shape) * BITS.get(meta.dtype, 32)
    view = view_at(node, "data_out") if chosen.format.rowwise else None
    return chosen.format.stored_bits(view.shape(shape) if view else shape) if math.prod(shape) else 0


def float_bits(cache: Cache, graph: Graph, context: int, sequences: int) -> int:
    """As `cache_bits`, of a cache without a node: in the type of its tensor."""
    meta = _meta(cache.source, graph)
    if meta is None:
        return 0
    return math.prod(_held(meta, cache.window, graph, context, sequences)) * BITS.get(meta.dtype, 32)


def _held(meta: TensorMeta, window: int | None, graph: Graph, context: int, sequences: int) -> tuple[int, ...]:
    """Shape of the keys or values that are held: [texts, heads, tokens, size]."""
    _, heads, _, size = meta.sizes(graph.symbols)
    return sequences, heads, context if window is None else min(context, window), size
