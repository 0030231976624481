"""Gives the keys and values that a decoder caches formats of their own."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.errors import PassError
from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, per_of
from espalier.model.graph.caches import CONTEXT, PART, SEQUENCES, Cache, cache_bits, caches, waits_for_scale, with_node
from espalier.model.graph.graph import Graph, Node, without_unused_scales
from espalier.model.graph.meta import BITS, Precision
from espalier.model.graph.views import SCALES, STATIC
from espalier.model.sources.reading import Limits
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.select import chosen

PORT = "data_out"


@transform("kv_cache", "Quantise KV cache", KVCacheOptions, instant=True)
def kv_cache(graph: Graph, options: KVCacheOptions, context: Context) -> tuple[Graph, Report]:
    """Set formats of cached keys (after rotary embedding) and values of causal attentions, and count the cache.

    Each cache becomes a `kv_cache` node before heads are repeated for groups of queries. An entry is rounded by its own
    token alone, so that a run over a whole text equals decoding token by token with the quantised cache. Scales of a
    tensor, head or channel over all tokens are static: `calibrate` has to follow. Bytes are those of `sequences` texts
    of `context` tokens, at most those of a sliding window, with all scales. Source of the scales by channel and token:
    Liu et al. 2024, KIVI, https://arxiv.org/abs/2402.02750, without its window in full precision.
    """
    before, named = graph, _selected(graph, options)
    ids: list[str] = []
    for cache in named:
        fmt, rows = options.of(cache.part)
        attrs: dict[str, int | str] = {SCALES: rows, CONTEXT: options.context, SEQUENCES: options.sequences}
        name = cache.node
        if name is None:
            graph, name = with_node(graph, cache, **attrs)
        node = graph.nodes[name]
        same_rows = node.attrs.get(SCALES) == rows
        graph = graph.replace(_with(replace(node, attrs={**node.attrs, **attrs}), fmt, keep=same_rows))
        _check(graph.nodes[name])
        ids.append(name)
    graph = without_unused_scales(graph, before)
    rows_ = [_row(graph.nodes[name], graph, options, cache) for name, cache in zip(ids, named, strict=True)]
    return graph, Report("kv_cache", tuple(rows_), _summary(graph, ids, rows_, options) | _warning(options, context))


def _selected(graph: Graph, options: KVCacheOptions) -> tuple[Cache, ...]:
    """The caches whose node, or one of whose attentions, is selected; raises PassError."""
    found = caches(graph)
    if not found:
        raise PassError(
            "The model has no causal scaled_dot_product_attention whose keys and values a cache could hold.",
            "Open a causal language model with torch's attention, and put this step before steps that decompose it.",
        )
    of_node = {n: c for c in found for n in (*c.attentions, *((c.node,) if c.node else ()))}
    names = {n.id for n in chosen(graph, options.select, lambda n: n.id in of_node, "given a quantised cache")}
    return tuple(c for c in found if names & {*c.attentions, c.node})


def _with(node: Node, fmt: Format | None, *, keep: bool) -> Node:
    """A cache with a format; with `keep` a static scale stays if the format is the same."""
    if fmt is None:
        return replace(node, precision={})
    held = node.precision.get(PORT)
    same = keep and held is not None and held.format == fmt
    return node if same else replace(node, precision={PORT: Precision(fmt)})


def _check(node: Node) -> None:
    """Raise PassError for a format whose entries would depend on other tokens, and that no calibration can fix."""
    chosen_ = node.precision.get(PORT)
    if chosen_ is None or not waits_for_scale(node) or _calibratable(node, chosen_):
        return
    raise PassError(
        f"{chosen_.format} takes its scale over several tokens of {node.id}, so that an entry would depend on later "
        "tokens.",
        "Choose scales by head, token or group, or for scales by channel int8, int4 or fp8.",
        node.id,
    )


def _calibratable(node: Node, precision: Precision) -> bool:
    if not isinstance(precision.format, ScaledFormat):
        return False
    per = getattr(precision.format, "per", None)
    per = per_of(getattr(precision.format, "granularity", "tensor")) if per is None else per
    return per == ROW if node.attrs.get(SCALES) in STATIC else per == TENSOR


def _row(node: Node, graph: Graph, options: KVCacheOptions, cache: Cache) -> Row:
    sizes = node.ports[PORT].sizes(graph.symbols)
    held, plain = node.precision.get(PORT), replace(node, precision={})
    size, floats = (cache_bits(n, graph, options.context, options.sequences) / 8 for n in (node, plain))
    bits = size / floats * BITS.get(node.ports[PORT].dtype, 32)
    label = held.label.removesuffix(" channel") if held else "float"
    return {
        "node": node.id, "part": node.attrs.get(PART), "format": label,
        "scales": _scales(node), "heads": sizes[1], "size": sizes[-1], "window": cache.window,
        "attentions": len(cache.attentions), "bytes": size, "float_bytes": floats, "bits": bits,
    }  # fmt: skip


def _scales(node: Node) -> str:
    held = node.precision.get(PORT)
    if held is None or not held.format.rowwise:
        return ""
    granularity = getattr(held.format, "granularity", "blocks")
    return str(node.attrs.get(SCALES)) if granularity == "channel" else granularity


def _warning(options: KVCacheOptions, context: Context) -> Row:
    """That the texts whose cache is counted are longer than those that the model takes; empty otherwise."""
    taken = context.reading.limits or Limits()
    found = {taken.length: "takes texts of {} tokens alone", taken.tokens: "has {} positions",
             taken.context: "has a context length of {} tokens"}  # fmt: skip
    longest = min((size for size in found if size), default=None)
    if longest is None or options.context <= longest:
        return {}
    model = found[longest].format(f"{longest:,}")
    return {"warning": f"The cache is counted for texts of {options.context:,} tokens, and the model {model} "
                       f"(context={longest}, --context {longest})."}  # fmt: skip


def _summary(graph: Graph, ids: list[str], rows: list[Row], options: KVCacheOptions) -> Row:
    size, plain = sum(r["bytes"] for r in rows), sum(r["float_bytes"] for r in rows)
    elements = sum(8 * r["bytes"] / r["bits"] for r in rows)
    waiting = [n for n in ids if waits_for_scale(graph.nodes[n])]
    notes = {"to_calibrate": len(waiting)} if waiting else {}
    return {"caches": len(ids), "context": options.context, "sequences": options.sequences, "kv_cache_bytes": size,
            "float_bytes": plain, "bits": 8 * size / elements, **notes}  # fmt: skip
