"""The score of a configuration: what it costs (from the graph alone) and what it achieves (measured).

Definitions are the command line's contract; `packed` below is the layout whose size is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.graph import Graph, Node
from model.ops import macs, quantisable, spec
from model.packing import packed_size, plan

FLOAT_BITS = 32.0


@dataclass(frozen=True, slots=True)
class Score:
    """accuracy: fraction correct; loss: mean cross-entropy; both None until measured.

    size_bytes: of the packed file. weight_bits: stored bits per parameter element, masks and float ones
    included. activation_bits: mean over the elements of data_in ports that can be quantised. sparsity:
    zeros over elements of Linear and convolution weights. bitops: Σ MACs × weight bits × activation bits
    of one sample at the traced sizes. memory_density: 32 × elements / stored bits.
    """

    accuracy: float | None = None
    loss: float | None = None
    size_bytes: int = 0
    weight_bits: float = 0.0
    activation_bits: float = 0.0
    sparsity: float = 0.0
    bitops: float = 0.0
    memory_density: float = 0.0

    def measured(self, accuracy: float, loss: float) -> Score:
        """With the measured part."""
        return replace(self, accuracy=accuracy, loss=loss)


def static_score(graph: Graph) -> Score:
    """The part of the score that needs no run; milliseconds, no torch."""
    packed = plan(graph)
    elements = sum(p.elements for p in packed if p.role == "parameter")
    bits = sum(p.bits for p in packed if p.role == "parameter")
    return Score(
        size_bytes=packed_size(packed),
        weight_bits=bits / elements if elements else 0.0,
        activation_bits=_activation_bits(graph),
        sparsity=_sparsity(graph),
        bitops=bitops(graph),
        memory_density=FLOAT_BITS * elements / bits if bits else 0.0,
    )


def one_sample(graph: Graph) -> dict[str, int]:
    """The example sizes with a batch of one."""
    return {k: 1 if k == "batch" or k.startswith("batch_") else v for k, v in graph.symbols.items()}


def port_bits(node: Node, port: str) -> float:
    """Bits of one element of a port: its format's, or 32 for float."""
    chosen = node.precision.get(port)
    return chosen.format.bits if chosen else FLOAT_BITS


def bitops(graph: Graph) -> float:
    """Σ MACs × weight bits × activation bits; both operands of a matmul count with their own bits."""
    sizes = one_sample(graph)
    return sum(node_bitops(n, sizes) for n in graph)


def node_bitops(node: Node, sizes: dict[str, int]) -> float:
    """BitOPs of one node at `sizes`."""
    return macs(node, sizes) * port_bits(node, "weight") * port_bits(node, "data_in")


def _activation_bits(graph: Graph) -> float:
    sizes = one_sample(graph)
    ports = [
        (n.ports["data_in"].elements(sizes), port_bits(n, "data_in")) for n in graph if "data_in" in quantisable(n)
    ]
    total = sum(count for count, _ in ports)
    return sum(count * bits for count, bits in ports) / total if total else FLOAT_BITS


def _sparsity(graph: Graph) -> float:
    found = dict(_pruned(graph))
    total = sum(elements for _, elements in found.values())
    return sum(zeros for zeros, _ in found.values()) / total if total else 0.0


def _pruned(graph: Graph) -> Iterator[tuple[str, tuple[int, int]]]:
    """Weight name → (zeros, elements), once for weights that several nodes share."""
    for node in graph:
        if spec(node.op).category == "linear" and "weight" in node.weights:
            name = node.weights["weight"]
            held = node.sparsity.get("weight")
            yield name, (held.zeros if held else 0, graph.weights[name].elements)
