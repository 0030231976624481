"""The packed layout of a model: which bits each tensor takes when stored with no waste.

A tensor is stored dense in its format's bits, or, when that is smaller, as a bit mask and the kept values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from model.graph import Graph, Node, refs
from model.meta import Weight
from model.ops import arg_port
from model.weights import header_of


@dataclass(frozen=True, slots=True)
class Packed:
    """One stored tensor. `bits` includes the mask of the "masked" layout."""

    name: str
    layout: Literal["dense", "masked"]
    elements: int
    kept: int
    element_bits: float
    format: str
    role: str

    @property
    def bits(self) -> float:
        """Stored bits in all."""
        if self.layout == "dense":
            return self.elements * self.element_bits
        return self.elements + self.kept * self.element_bits

    @property
    def size(self) -> int:
        """Bytes on disk, each part padded to whole bytes."""
        if self.layout == "dense":
            return math.ceil(self.elements * self.element_bits / 8)
        return math.ceil(self.elements / 8) + math.ceil(self.kept * self.element_bits / 8)


def plan(graph: Graph) -> list[Packed]:
    """How each weight of the graph is stored, in the graph's order.

    A weight that nodes use in different formats is stored in the widest of them.
    """
    users: dict[str, list[tuple[Node, str]]] = {name: [] for name in graph.weights}
    for node in graph:
        for port, name in (*_own(node), *_read(node, graph)):
            users[name].append((node, port))
    return [_packed(name, w, users[name]) for name, w in graph.weights.items()]


def _own(node: Node) -> Iterable[tuple[str, str]]:
    """(port, weight) of a module's own weights."""
    return node.weights.items() if node.call != "get_attr" else ()


def _read(node: Node, graph: Graph) -> Iterator[tuple[str, str]]:
    """(port, weight) of weights that a function reads; "" where the op has no port for it."""
    for position, arg in enumerate((*node.args, *node.kwargs.values())):
        for ref in refs((arg,)):
            source = graph.nodes[ref.node]
            if source.call == "get_attr":
                port = arg_port(node.op, position) if position < len(node.args) else None
                yield port or "", source.weights["value"]


def _packed(name: str, weight: Weight, users: list[tuple[Node, str]]) -> Packed:
    formats = [n.precision[p].format if p in n.precision else None for n, p in users]
    masks = {n.sparsity[p].mask: n.sparsity[p].zeros for n, p in users if p in n.sparsity}
    uses_differ = len(masks) != 1 or any(p not in n.sparsity for n, p in users)
    zeros = 0 if uses_differ else next(iter(masks.values()))
    float_bits = float(weight.float_bits)
    chosen = None if not formats or None in formats else max(formats, key=lambda f: f.bits if f else float_bits)
    bits = chosen.bits if chosen else float_bits
    kept = weight.elements - zeros
    layout = "masked" if zeros and weight.elements + kept * bits < weight.elements * bits else "dense"
    return Packed(name, layout, weight.elements, kept, bits, str(chosen) if chosen else weight.dtype, weight.role)


def header(packed: list[Packed]) -> bytes:
    """The safetensors header of a packed file: one uint8 tensor per weight, its layout in the metadata."""
    facts = {p.name: {"layout": p.layout, "format": p.format, "elements": p.elements, "kept": p.kept} for p in packed}
    sizes = {p.name: ("uint8", (p.size,), p.size) for p in packed}
    return header_of(sizes, {"espalier": json.dumps(facts, separators=(",", ":"))})


def packed_size(packed: list[Packed]) -> int:
    """Bytes of the packed file, header included."""
    text = len(header(packed))
    return 8 + text + -(8 + text) % 64 + sum(p.size for p in packed)
