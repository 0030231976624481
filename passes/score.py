"""The score of a configuration: its costs (computed from the graph) and its accuracy and loss (measured).

The definitions are part of the command line's contract. Sizes are those of the layout in model/packed/layout.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.adapters import adapter_macs
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS, Precision, Weight
from espalier.model.graph.ops import decomposable, floating, products, spec
from espalier.model.graph.ports import choice, weight_at
from espalier.model.graph.products import FLOAT
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
from espalier.passes.unpruned import Unpruned, unpruned_of

FLOAT_BITS = 32.0
LARGEST = 700.0  # nats, above which a perplexity is no float


def perplexity(loss: float) -> float:
    """e^loss of a mean cross-entropy in nats; of a loss above LARGEST that of LARGEST."""
    return math.exp(min(loss, LARGEST))


@dataclass(frozen=True, slots=True)
class Score:
    """accuracy: fraction correct, None for a task without; loss: of the task; both None until measured.

    size_bytes: size of the packed file. weight_bits: stored bits per parameter element, including masks, float
    parameters, shared exponents and scales. activation_bits: stored bits, mean over all multiplied elements: the
    data_in ports of layers and matmuls, including those in attentions. sparsity: zeros over elements of matrices in
    products: weights of linear and convolution nodes, which `prune` can mask, and those of experts, recurrent layers
    and functions, and weights that the model computes, which it cannot. bitops: Σ MACs × weight bits × activation bits
    of one sample at the traced sizes, including zeros. activation_sparsity: pruned share of the elements in
    activation_bits. memory_density: 32 × elements / stored bits.
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

    @property
    def perplexity(self) -> float | None:
        """e^loss, the perplexity if the loss is of next tokens."""
        return None if self.loss is None else perplexity(self.loss)

    def measured(self, accuracy: float | None, loss: float) -> Score:
        """The score with measured accuracy and loss."""
        return replace(self, accuracy=accuracy, loss=loss)


@dataclass(frozen=True, slots=True)
class _NodeCost:
    """Contribution of a node. `pruned`: (weight, zeros). `unpruned`: matrices that no mask can take. `activation`:
    (elements, bits, pruned share).

    `scales`: (static scale, whether of a stored weight). `line`: its text in the packed file, which names `masks`.
    """

    node: Node
    bitops: float
    activation: tuple[int, float, float] | None
    pruned: tuple[str, int] | None
    unpruned: tuple[tuple[str, Unpruned], ...]
    uses: tuple[tuple[str, Use], ...]
    scales: tuple[tuple[str, bool], ...]
    line: str
    masks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _WeightCost:
    """Contribution of a weight with these uses: bits, sizes in the file and shares of its header in bytes."""

    weight: Weight
    uses: list[Use]
    bits: int
    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    line: str


class Scorer:
    """Computes static scores of successive graphs; unchanged nodes and weights are not counted again."""

    def __init__(self) -> None:
        self._symbols: dict[str, int] = {}
        self._nodes: dict[str, _NodeCost] = {}
        self._weights: dict[str, _WeightCost] = {}
        self._pieces: dict[Lines, int] = {}

    def score(self, graph: Graph) -> Score:
        """The part of the score that needs no evaluation; milliseconds, no torch."""
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
        """(elements, stored bits) of all parameters; a static scale counts as bits of its weight."""
        scales: dict[str, bool] = {}
        for cost in self._nodes.values():
            for name, of_weight in cost.scales:
                scales[name] = of_weight or scales.get(name, False)
        costs = [(c, scales.get(n)) for n, c in self._weights.items()]
        own = [c for c, scale in costs if c.weight.role == "parameter" and (scale is None or c.uses)]
        scale_bits = sum(c.bits for c, scale in costs if scale and not c.uses)
        return sum(c.weight.elements for c in own), sum(c.bits for c in own) + scale_bits

    def _graph_size(self, graph: Graph) -> int:
        """Bytes of the graph in the packed file."""
        cached, sizes = self._pieces, list[tuple[Lines, int]]()
        nodes = labelled((c.line, c.masks) for c in self._nodes.values())
        for piece in pieces([first_line(graph), *nodes, *(c.line for c in self._weights.values())]):
            sizes.append((piece, cached[piece] if piece in cached else len(compressed(piece))))
        self._pieces = dict(sizes)
        return sum(size for _, size in sizes)

    def _count_nodes(self, graph: Graph) -> None:
        cached, sizes = self._nodes, one_sample(graph)
        # The weights of a function depend on the get_attr nodes before it too.
        sources = (n for n in graph if n.call == "get_attr")
        if self._symbols != graph.symbols or any(n.id in cached and cached[n.id].node is not n for n in sources):
            cached = {}
        self._symbols = graph.symbols
        self._nodes = {
            n.id: old if (old := cached.get(n.id)) and old.node is n else _node_cost(n, graph, sizes) for n in graph
        }

    def _count_weights(self, graph: Graph) -> None:
        cached, users = self._weights, dict[str, list[Use]]((name, []) for name in graph.weights)
        for cost in self._nodes.values():
            for name, use in cost.uses:
                users[name].append(use)
        self._weights = {
            name: old if (old := cached.get(name)) and old.weight is w and old.uses == users[name]
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
        """Zeros over elements; shared weights count once."""
        zeros = dict(c.pruned for c in self._nodes.values() if c.pruned)
        others = dict(x for c in self._nodes.values() for x in c.unpruned)
        total = sum(graph.weights[name].elements for name in zeros)
        total += sum(x.elements for key, x in others.items() if key not in zeros)
        return sum(zeros.values()) / total if total else 0.0


def static_score(graph: Graph) -> Score:
    """The part of the score that needs no evaluation, for a single graph."""
    return Scorer().score(graph)


def _node_cost(node: Node, graph: Graph, sizes: dict[str, int]) -> _NodeCost:
    input_sparsity = node.sparsity.get("data_in")
    share = input_sparsity.ratio if input_sparsity and input_sparsity.flows else 0.0
    activation = (
        (multiplied_elements(node, sizes), port_bits(node, "data_in", sizes), share) if spec(node.op).macs else None
    )
    name = weight_at(node, "weight", graph) if spec(node.op).category == "linear" else None
    sparsity = node.sparsity.get("weight")
    pruned = (name, sparsity.zeros if sparsity else 0) if name is not None else None
    scales = tuple((c.scale, weight_at(node, p, graph) is not None) for p, c in node.precision.items() if c.scale)
    return _NodeCost(node, node_bitops(node, sizes), activation, pruned, unpruned_of(node, graph), uses(node, graph),
                     scales, node_line(node), masks_of(node))  # fmt: skip


def multiplied_elements(node: Node, sizes: dict[str, int]) -> int:
    """Activation elements that a node multiplies; for an attention its query and its probabilities."""
    if node.call == "opaque" or not floating(node.ports.get("data_in")):
        return 0
    shape = node.ports["data_in"].sizes(sizes)
    if not decomposable(node):
        return math.prod(shape)
    return math.prod(shape) + math.prod(shape[:-1]) * node.ports["weight"].sizes(sizes)[-2]


def _weight_cost(name: str, weight: Weight, users: list[Use]) -> _WeightCost:
    packed = stored(name, weight, users)
    sizes, shares = tuple(p.size for p in packed), tuple(header_share(p) for p in packed)
    line = weight_line(name, weight, [facts(p) for p in packed])
    return _WeightCost(weight, users, sum(p.bits for p in packed), sizes, shares, line)


def one_sample(graph: Graph) -> dict[str, int]:
    """The example sizes with a batch of one."""
    return {k: 1 if k == "batch" or k.startswith("batch_") else v for k, v in graph.symbols.items()}


def port_bits(node: Node, port: str, sizes: dict[str, int]) -> float:
    """Stored bits per element of a port at `sizes`, including shared exponents and scales."""
    chosen, meta = choice(node, port), node.ports.get(port)
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
        scale_bits = 32 * math.prod(fmt.scale_shape(view.shape(shape) if view else shape))
        return fmt.element_bits + scale_bits / count
    return fmt.element_bits + shared_bits(fmt, view, shape) / count


def bitops(graph: Graph) -> float:
    """Σ MACs × weight bits × activation bits; both operands of a matmul count with their own bits."""
    sizes = one_sample(graph)
    return sum(node_bitops(n, sizes) for n in graph)


def node_bitops(node: Node, sizes: dict[str, int]) -> float:
    """BitOPs of a node at `sizes`; the matrices and intermediate values of adapters are float."""
    total = sum(p.macs * _operand_bits(node, p.weight, sizes) * _operand_bits(node, p.data, sizes)
                for p in products(node, sizes) or ())  # fmt: skip
    if not node.adapters:
        return total
    (first, second), input_bits = adapter_macs(node, sizes), port_bits(node, "data_in", sizes)
    return total + FLOAT_BITS * (first * input_bits + second * FLOAT_BITS)


def _operand_bits(node: Node, port: str, sizes: dict[str, int]) -> float:
    """The bits of an operand; of values within a node those of its result's type."""
    if port == FLOAT:
        return float(BITS.get(node.out.dtype, 32)) if node.out and floating(node.out) else FLOAT_BITS
    return port_bits(node, port, sizes)
