"""The layout of packed models: the bits of each tensor, and so the size of the file.

A weight with several uses is stored once per use, or in float if that is smaller, as rounding twice differs from
rounding once. A static scale is a weight itself and replaces the format's own scale.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import TensorKey, Weight
from espalier.model.graph.ports import choice, weights_of
from espalier.model.graph.views import View, view_at
from espalier.model.packed.graph import graph_bytes
from espalier.model.store.weights import header_of

VERSION = 1
GRAPH, SOURCE = "@graph", "@source"  # names of the tensors with the graph and the model's origin
SOURCE_BYTES = 256
CODED = ("float32", "bfloat16", "float16")  # dtypes that codes represent exactly; others are stored unchanged


class Use(NamedTuple):
    """How a node uses a weight: its format (None: float), static scale and mask.

    `view`: layout of the tensor for a format with blocks or rows. `own`: the node refers to the weight itself and could
    refer to another; functions get it as an argument. `exact`: other zeros would break the pattern of the mask.
    """

    format: Format | None = None
    scale: str | None = None
    mask: TensorKey | None = None
    zeros: int = 0
    view: View | None = None
    own: bool = True
    exact: bool = False


FLOAT = Use()


@dataclass(frozen=True, slots=True)
class Packed:
    """A stored tensor of a weight: "dense" in its format's bits, or "masked": a bit mask and the kept values.

    "masked" is used if it is smaller or if the zeros would be lost otherwise. `shared`: bits of shared fields (scales,
    exponents) of blocks, rows or the tensor.
    """

    name: str
    layout: Literal["dense", "masked"]
    shape: tuple[int, ...]
    kept: int
    element_bits: int
    format: str
    role: str
    shared: int = 0
    weight: str = ""
    use: Use = FLOAT

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Stored bits of mask, values and shared fields."""
        return self.mask_bits + self.code_bits + self.shared

    @property
    def size(self) -> int:
        """Bytes in the file; mask and values are each padded to bytes."""
        return -(-self.mask_bits // 8) - (-(self.code_bits + self.shared) // 8)

    @property
    def mask_bits(self) -> int:
        """Bits of the mask: one per element in the "masked" layout."""
        return self.elements if self.layout == "masked" else 0

    @property
    def code_bits(self) -> int:
        """Bits of the values that are stored."""
        return (self.kept if self.layout == "masked" else self.elements) * self.element_bits


# -- the plan


def uses(node: Node, graph: Graph) -> tuple[tuple[str, Use], ...]:
    """(weight, use) of all weights that a node reads."""
    return tuple((name, use_at(node, port, name)) for port, name in weights_of(node, graph))


def use_at(node: Node, port: str, name: str) -> Use:
    """How a node uses the weight `name` at `port` ("": unquantised)."""
    if not port:
        return FLOAT._replace(own=False)
    chosen, pruned = (choice(node, port) if port else None), node.sparsity.get(port)
    fmt = chosen.format if chosen else None
    view = view_at(node, port) if fmt and fmt.rowwise and port in node.ports else None
    return Use(fmt, chosen.scale if chosen else None, pruned.mask if pruned else None, pruned.zeros if pruned else 0,
               view, node.weights.get(port) == name, pruned is not None and pruned.pattern != "element")  # fmt: skip


def users_of(graph: Graph) -> dict[str, list[Use]]:
    """Each weight's uses, in the graph's order."""
    users: dict[str, list[Use]] = {name: [] for name in graph.weights}
    for node in graph:
        for name, use in uses(node, graph):
            users[name].append(use)
    return users


def plan(graph: Graph) -> list[Packed]:
    """The stored tensors of each weight, in the graph's order."""
    users = users_of(graph)
    return [p for name, w in graph.weights.items() for p in stored(name, w, users[name])]


def ways(users: Sequence[Use]) -> list[Use]:
    """The distinct uses; an unused weight is stored in float."""
    return list(dict.fromkeys(u._replace(own=True) for u in users)) or [FLOAT]


def stored(name: str, weight: Weight, users: Sequence[Use]) -> tuple[Packed, ...]:
    """The stored tensors of a weight with these uses: one per use, or float values and masks for all."""
    distinct = ways(users)
    shared = _shared(name, weight, distinct)
    coded = weight.dtype in CODED or not any(u.format for u in distinct)
    if not coded or (len(distinct) > 1 and not all(u.own for u in users)):
        return shared
    label = _escaped(name)
    each = tuple(_packed(f"{label}@{i}" if i else label, name, weight, u) for i, u in enumerate(distinct))
    return each if len(each) == 1 else min(shared, each, key=lambda packed: sum(p.bits for p in packed))


def _escaped(name: str) -> str:
    """A tensor's name in the file, where a single @ is reserved."""
    return name.replace("@", "@@")


def _shared(name: str, weight: Weight, distinct: list[Use]) -> tuple[Packed, ...]:
    """Float values for all uses, and separate masks if they differ."""
    masks, label = list(dict.fromkeys((u.mask, u.zeros, u.exact) for u in distinct)), _escaped(name)
    if len(masks) == 1:
        mask, zeros, exact = masks[0]
        return (_packed(label, name, weight, Use(mask=mask, zeros=zeros, exact=exact)),)
    apart = [Use(mask=mask) for mask, *_ in masks if mask is not None]
    return (_packed(label, name, weight, FLOAT),
            *(Packed(f"{label}@mask{i}", "dense", weight.shape, weight.elements, 1, "mask", weight.role, 0, name, use)
              for i, use in enumerate(apart)))  # fmt: skip


def _packed(label: str, name: str, weight: Weight, use: Use) -> Packed:
    size, kept, fmt = weight.elements, weight.elements - use.zeros, use.format
    bits = fmt.element_bits if fmt else weight.float_bits
    shared = shared_bits(fmt, use.view, weight.shape) if fmt and use.scale is None else 0
    # A format without a zero would give what the mask removes another value.
    needed = use.exact or (fmt is not None and not fmt.keeps_zero)
    layout = "masked" if use.zeros and (needed or size + kept * bits < size * bits) else "dense"
    return Packed(label, layout, weight.shape, kept, bits, str(fmt or weight.dtype), weight.role, shared, name, use)


@lru_cache(maxsize=4096)
def shared_bits(fmt: Format, view: View | None, shape: tuple[int, ...]) -> int:
    """Bits of the shared fields of a tensor of `shape`: scales, exponents, zero points."""
    seen = view.shape(shape) if view else shape
    return fmt.stored_bits(seen) - math.prod(shape) * fmt.element_bits


# -- the file's header


def facts(packed: Packed) -> dict[str, Any]:
    """The storage of a tensor, for readers of the file."""
    view = packed.use.view
    order: dict[str, Any] = {"order": view.order, "flat": view.flat} if view else {}
    order |= {"groups": view.groups} if view and view.groups > 1 else {}
    return {"tensor": packed.name, "format": packed.format, "layout": packed.layout, "bits": packed.element_bits,
            "kept": packed.kept, **order}  # fmt: skip


def element_order(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order of elements in `facts`."""
    return tuple(data.get("order", ())), data.get("flat", False), data.get("groups", 1)


def header(packed: Sequence[Packed], blobs: Mapping[str, int], check: str = "0" * 32) -> bytes:
    """The safetensors header of a packed file: uint8 tensors.

    `blobs`: name → bytes of the tensors that hold no weight. `check`: xxh3-128 of all data.
    """
    sizes = {p.name: p.size for p in packed} | dict(blobs)
    text = json.dumps({"packed": VERSION, "check": check}, separators=(",", ":"))
    return header_of({k: ("uint8", (size,), size) for k, size in sizes.items()}, {"espalier": text})


def blobs_of(graph_size: int) -> dict[str, int]:
    """The tensors that are not weights, with their sizes."""
    return {GRAPH: graph_size, SOURCE: SOURCE_BYTES}


def packed_size(graph: Graph) -> int:
    """Bytes of the packed file, header included."""
    packed = plan(graph)
    return size_with([p.size for p in packed], [header_share(p) for p in packed], len(described(graph, packed)))


def described(graph: Graph, packed: Sequence[Packed]) -> bytes:
    """The serialised graph with the storage of its weights."""
    tensors: dict[str, list[dict[str, Any]]] = {name: [] for name in graph.weights}
    for part in packed:
        tensors[part.weight].append(facts(part))
    return graph_bytes(graph, tensors)


def header_share(packed: Packed) -> int:
    """Characters of a tensor in the header, without its two offsets."""
    return len(header([packed], {})) - _bare() - len(f"0{packed.size}")


@cache
def _bare() -> int:
    return len(header([], {}))


@cache
def _blob_share(name: str, size: int) -> int:
    return len(header([], {name: size})) - _bare() - len(f"0{size}")


def size_with(sizes: Sequence[int], shares: Sequence[int], graph_size: int) -> int:
    """`packed_size` from known sizes of tensors and graph and known `header_share`s."""
    blobs = blobs_of(graph_size)
    ends = list(itertools.accumulate([*sizes, *blobs.values()], initial=0))
    offsets = len("".join(map(str, ends))) * 2 - len(f"0{ends[-1]}")
    text = _bare() + sum(shares) + sum(_blob_share(n, s) for n, s in blobs.items()) + offsets
    return 8 + text + -(8 + text) % 64 + ends[-1]
