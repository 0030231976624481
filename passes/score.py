"""The score of a configuration: what it costs (from the graph alone) and what it achieves (measured).

Definitions are the command line's contract; the layout whose size is reported is that of model/packed/layout.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.adapters import adapter_macs
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS, Precision, Weight
from espalier.model.graph.ops import decomposable, floating, macs, spec
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import view_at
from espalier.model.packed.graph import (
    Lines,
    compressed,
    first_line,
    labelled,
    masks_of,
    node_line,
    pieces,
    weight_line,
)
from espalier.model.packed.layout import Use, facts, header_share, shared_bits, size_with, stored, uses

FLOAT_BITS = 32.0


@dataclass(frozen=True, slots=True)
class Score:
    """accuracy: fraction correct; loss: mean cross-entropy; both None until measured.

    size_bytes: of the packed file. weight_bits: stored bits per parameter element; masks, float ones and all that
    formats share or are given as scales included. activation_bits: stored bits, mean over the elements that are
    multiplied: the data_in ports of layers and matmuls, those in attentions included. sparsity: zeros over elements of
    Linear and convolution weights. bitops: Σ MACs × weight bits × activation bits of one sample at the traced sizes,
    of zeros too. activation_sparsity: the share that is pruned of the elements that activation_bits counts.
    memory_density: 32 × elements / stored bits.
    """

    accuracy: float | None = None
    loss: float | None = None
    size_bytes: int = 0
    weight_bits: float = 0.0
    activation_bits: float = 0.0
    sparsity: float = 0.0
    bitops: float = 0.0
    memory_density: float = 0.0
    activation_sparsity: float = 0.0

    def measured(self, accuracy: float, loss: float) -> Score:
        """With the measured part."""
        return replace(self, accuracy=accuracy, loss=loss)


@dataclass(frozen=True, slots=True)
class _NodeCost:
    """What one node adds to the score. `pruned`: (weight, its zeros); `activation`: (elements, bits, share pruned).

    `scales`: given ones, and whether of a stored weight. `line`: its text in the packed file, which names `masks`.
    """

    node: Node
    bitops: float
    activation: tuple[int, float, float] | None
    pruned: tuple[str, int] | None
    uses: tuple[tuple[str, Use], ...]
    scales: tuple[tuple[str, bool], ...]
    line: str
    masks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _WeightCost:
    """How a weight with these uses is stored, and what its tensors add to the file and its header."""

    weight: Weight
    uses: list[Use]
    bits: int
    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    line: str


class Scorer:
    """Static scores of one graph after another: only what differs from the graph before is counted again."""

    def __init__(self) -> None:
        self._symbols: dict[str, int] = {}
        self._nodes: dict[str, _NodeCost] = {}
        self._weights: dict[str, _WeightCost] = {}
        self._pieces: dict[Lines, int] = {}

    def score(self, graph: Graph) -> Score:
        """The part of the score that needs no run; milliseconds, no torch."""
        self._count_nodes(graph)
        self._count_weights(graph)
        packed = list(self._weights.values())
        sizes, shares = [s for p in packed for s in p.sizes], [s for p in packed for s in p.shares]
        elements, bits = self._stored()
        return Score(
            size_bytes=size_with(sizes, shares, self._graph_size(graph)),
            weight_bits=bits / elements if elements else 0.0,
            activation_bits=self._activation_bits(),
            sparsity=self._sparsity(graph),
            bitops=sum(c.bitops for c in self._nodes.values()),
            memory_density=FLOAT_BITS * elements / bits if bits else 0.0,
            activation_sparsity=self._activation_sparsity(),
        )

    def _stored(self) -> tuple[int, int]:
        """(elements of the parameters, bits that they take): a given scale is bits of the weight that it scales."""
        scales: dict[str, bool] = {}
        for cost in self._nodes.values():
            for name, of_weight in cost.scales:
                scales[name] = of_weight or scales.get(name, False)
        held = [(c, scales.get(n)) for n, c in self._weights.items()]
        own = [c for c, scale in held if c.weight.role == "parameter" and (scale is None or c.uses)]
        given = sum(c.bits for c, scale in held if scale and not c.uses)
        return sum(c.weight.elements for c in own), sum(c.bits for c in own) + given

    def _graph_size(self, graph: Graph) -> int:
        """Bytes of the graph in the packed file."""
        held, sizes = self._pieces, list[tuple[Lines, int]]()
        nodes = labelled((c.line, c.masks) for c in self._nodes.values())
        for piece in pieces([first_line(graph), *nodes, *(c.line for c in self._weights.values())]):
            sizes.append((piece, held[piece] if piece in held else len(compressed(piece))))
        self._pieces = dict(sizes)
        return sum(size for _, size in sizes)

    def _count_nodes(self, graph: Graph) -> None:
        held, sizes = self._nodes, one_sample(graph)
        # What a function reads hangs on the get_attr nodes before it as well.
        sources = (n for n in graph if n.call == "get_attr")
        if self._symbols != graph.symbols or any(n.id in held and held[n.id].node is not n for n in sources):
            held = {}
        self._symbols = graph.symbols
        self._nodes = {
            n.id: old if (old := held.get(n.id)) and old.node is n else _node_cost(n, graph, sizes) for n in graph
        }

    def _count_weights(self, graph: Graph) -> None:
        held, users = self._weights, dict[str, list[Use]]((name, []) for name in graph.weights)
        for cost in self._nodes.values():
            for name, use in cost.uses:
                users[name].append(use)
        self._weights = {
            name: old if (old := held.get(name)) and old.weight is w and old.uses == users[name]
            else _weight_cost(name, w, users[name])
            for name, w in graph.weights.items()
        }  # fmt: skip

    def _activation_bits(self) -> float:
        ports = [c.activation for c in self._nodes.values() if c.activation]
        total = sum(count for count, *_ in ports)
        return sum(count * bits for count, bits, _ in ports) / total if total else FLOAT_BITS

    def _activation_sparsity(self) -> float:
        ports = [c.activation for c in self._nodes.values() if c.activation]
        total = sum(count for count, *_ in ports)
        return sum(count * share for count, _, share in ports) / total if total else 0.0

    def _sparsity(self, graph: Graph) -> float:
        """Weights that several nodes share count once."""
        zeros = dict(c.pruned for c in self._nodes.values() if c.pruned)
        total = sum(graph.weights[name].elements for name in zeros)
        return sum(zeros.values()) / total if total else 0.0


def static_score(graph: Graph) -> Score:
    """The part of the score that needs no run, of a graph alone."""
    return Scorer().score(graph)


def _node_cost(node: Node, graph: Graph, sizes: dict[str, int]) -> _NodeCost:
    flowing = node.sparsity.get("data_in")
    share = flowing.ratio if flowing and flowing.flows else 0.0
    activation = (multiplied(node, sizes), port_bits(node, "data_in", sizes), share) if spec(node.op).macs else None
    name = weight_at(node, "weight", graph) if spec(node.op).category == "linear" else None
    held = node.sparsity.get("weight")
    pruned = (name, held.zeros if held else 0) if name is not None else None
    scales = tuple((c.scale, weight_at(node, p, graph) is not None) for p, c in node.precision.items() if c.scale)
    return _NodeCost(node, node_bitops(node, sizes), activation, pruned, uses(node, graph), scales, node_line(node),
                     masks_of(node))  # fmt: skip


def multiplied(node: Node, sizes: dict[str, int]) -> int:
    """Activations that a node multiplies: of an attention, its query and the probabilities, as when decomposed."""
    if node.call == "opaque" or not floating(node.ports.get("data_in")):
        return 0
    held = node.ports["data_in"].sizes(sizes)
    if not decomposable(node):
        return math.prod(held)
    return math.prod(held) + math.prod(held[:-1]) * node.ports["weight"].sizes(sizes)[-2]


def _weight_cost(name: str, weight: Weight, users: list[Use]) -> _WeightCost:
    packed = stored(name, weight, users)
    sizes, shares = tuple(p.size for p in packed), tuple(header_share(p) for p in packed)
    line = weight_line(name, weight, [facts(p) for p in packed])
    return _WeightCost(weight, users, sum(p.bits for p in packed), sizes, shares, line)


def one_sample(graph: Graph) -> dict[str, int]:
    """The example sizes with a batch of one."""
    return {k: 1 if k == "batch" or k.startswith("batch_") else v for k, v in graph.symbols.items()}


def port_bits(node: Node, port: str, sizes: dict[str, int]) -> float:
    """Stored bits of one element of a port at `sizes`: its format's with what is shared or given, or its float's."""
    chosen, meta = node.precision.get(port), node.ports.get(port)
    if chosen:
        return _format_bits(node, port, chosen, sizes)
    return float(BITS.get(meta.dtype, 32)) if meta and floating(meta) else FLOAT_BITS


def _format_bits(node: Node, port: str, chosen: Precision, sizes: dict[str, int]) -> float:
    fmt, meta = chosen.format, node.ports.get(port)
    count = meta.elements(sizes) if meta else 0
    if meta is None or not fmt.rowwise or not count:
        return float(fmt.element_bits)
    view, shape = view_at(node, port), meta.sizes(sizes)
    if chosen.scale and isinstance(fmt, ScaledFormat):
        given = 32 * math.prod(fmt.scale_shape(view.shape(shape) if view else shape))
        return fmt.element_bits + given / count
    return fmt.element_bits + shared_bits(fmt, view, shape) / count


def bitops(graph: Graph) -> float:
    """Σ MACs × weight bits × activation bits; both operands of a matmul count with their own bits."""
    sizes = one_sample(graph)
    return sum(node_bitops(n, sizes) for n in graph)


def node_bitops(node: Node, sizes: dict[str, int]) -> float:
    """BitOPs of one node at `sizes`; an adapter's matrices and what flows between them are float."""
    own, flowing = macs(node, sizes), port_bits(node, "data_in", sizes)
    first, second = adapter_macs(node, sizes) if node.adapters else (0, 0)
    return own * port_bits(node, "weight", sizes) * flowing + FLOAT_BITS * (first * flowing + second * FLOAT_BITS)
