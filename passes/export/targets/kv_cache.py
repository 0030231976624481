"""Cached keys and values as compressed-tensors' `kv_cache_scheme` (0.20): one static scheme for all layers.

Schema: compressed_tensors.quantization.QuantizationConfig, https://github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.graph.caches import PART, PARTS, cache_nodes, caches
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.views import SCALES
from espalier.passes.export.targets import No
from espalier.passes.export.targets.compressed_tensors_args import Args

CHOOSE = "Choose fp8 or scaled_element(element=int8) with tensor or static_head scales, and calibrate them."


def cache_args(node: Node) -> Args | No | None:
    """The arguments of a cache; None for one in float."""
    chosen = node.precision.get("data_out")
    if chosen is None:
        return None
    kind = _kind(chosen.format)
    if kind is None:
        return No("caches hold E4M3, or integers from −128 to 127", CHOOSE)
    if chosen.scale is None:
        return No("its scales are taken from the data, and calibrated ones are read", CHOOSE)
    granularity = getattr(chosen.format, "granularity", "")
    if granularity == "tensor":
        return Args(8, "tensor", kind)
    if granularity == "channel" and node.attrs.get(SCALES) == "static_head":
        return Args(8, "attn_head", kind)
    return No("caches have a scale of the tensor or of each head", CHOOSE)


def _kind(fmt: object) -> str | None:
    match fmt:
        case ScaledElement(element="int8"):
            return "int"
        case ScaledElement(element="e4m3"):
            return "float"
        case _:
            return None


def cache_scheme(graph: Graph) -> Args | None:
    """The arguments that all caches have; None for a graph with a cache in float, or whose caches differ."""
    found = {cache_args(n) for n in cache_nodes(graph)}
    only = found.pop() if len(found) == 1 else None
    if not isinstance(only, Args) or _alone(graph) or any(c.node is None for c in caches(graph)):
        return None
    return only


def _alone(graph: Graph) -> list[str]:
    """Modules with only keys or only values in a cache with a format, or with several attentions."""
    parts: dict[str, list[object]] = {}
    for node in cache_nodes(graph):
        parts.setdefault(node.module_path, []).append(node.attrs.get(PART))
    return [path for path, found in parts.items() if sorted(map(str, found)) != sorted(PARTS)]


def unheld_cache(node: Node, graph: Graph) -> No | None:
    """Why the format of a cache cannot be held."""
    own = cache_args(node)
    if isinstance(own, No) or own is None:
        return own if isinstance(own, No) else None
    if cache_scheme(graph) is None:
        return No("one scheme holds for keys and values of all layers", "Choose the same format for all caches.")
    return None
