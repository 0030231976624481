"""Multiply–accumulates of operations, by the pair of operands that they multiply."""

from __future__ import annotations

import math
from typing import NamedTuple

from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Node

Symbols = dict[str, int]
FLOAT = ""  # stands for the port of values between the steps of a recurrent layer, which no format rounds
_GATES = {"lstm": 4, "gru": 3}


class Product(NamedTuple):
    """Multiply–accumulates of the values at port `data` with those at port `weight`."""

    macs: int
    data: str
    weight: str


def sizes_at(node: Node, port: str, symbols: Symbols) -> tuple[int, ...]:
    """The shape of the tensor at a port; empty without one."""
    meta: TensorMeta | None = node.ports.get(port)
    return meta.sizes(symbols) if meta else ()


def second(node: Node) -> str:
    """The port of the second operand of a product."""
    return "weight" if "weight" in node.ports else "data_in_1"


def contract_last(node: Node, symbols: Symbols) -> int:
    """Results × the length of the first operand's last axis."""
    return math.prod(sizes_at(node, "data_out", symbols)) * (sizes_at(node, "data_in", symbols) or (0,))[-1]


def outer(node: Node, symbols: Symbols) -> int:
    """One multiplication for each result."""
    return math.prod(sizes_at(node, "data_out", symbols))


def summed_products(node: Node, symbols: Symbols) -> int:
    """addbmm: the products [batch, rows, inputs] × [batch, inputs, columns], which it adds."""
    return math.prod(sizes_at(node, "data_in", symbols)) * (sizes_at(node, second(node), symbols) or (0,))[-1]


def tensordot(node: Node, symbols: Symbols) -> int | None:
    """Results × the sizes of the contracted axes of the first operand."""
    axes, sizes = node.args[2] if len(node.args) > 2 else None, sizes_at(node, "data_in", symbols)
    if not isinstance(axes, tuple) or not all(isinstance(a, int) for a in axes):
        return None
    return outer(node, symbols) * math.prod(sizes[a] for a in axes if isinstance(a, int))


def conv(node: Node, symbols: Symbols) -> int:
    """Results × the elements of one filter."""
    return outer(node, symbols) * math.prod(sizes_at(node, second(node), symbols)[1:])


def conv_transposed(node: Node, symbols: Symbols) -> int:
    """Inputs × the elements that each is multiplied with."""
    return math.prod(sizes_at(node, "data_in", symbols)) * math.prod(sizes_at(node, second(node), symbols)[1:])


def attention(node: Node, symbols: Symbols) -> int | None:
    """Queries × keys and probabilities × values, of all keys: masks leave none out."""
    ports = ("data_in", "weight", "weight_1") if "weight" in node.ports else ("data_in", "data_in_1", "data_in_2")
    query, key, value = (sizes_at(node, p, symbols) for p in ports)
    if not (query and key and value):
        return None
    return math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def einsum(node: Node, symbols: Symbols) -> int | None:
    """The product of the sizes of all indices; 0 for one operand, None for more than two.

    An ellipsis stands for the leading axes that the letters leave, as torch aligns them.
    """
    if not isinstance(node.args[0], str):
        return None
    terms = node.args[0].replace(" ", "").split("->")[0].split(",")
    if len(terms) != 2:
        return 0 if len(terms) == 1 else None
    index: dict[str, int] = {}
    for term, size in zip(terms, (sizes_at(node, p, symbols) for p in ("data_in", "weight")), strict=True):
        wide = len(size) - len(term.replace("...", ""))
        before, dots, after = term.partition("...")
        names = [*before, *(f".{i}" for i in range(wide if dots else 0, 0, -1)), *after]
        if len(names) != len(size):
            return None
        for name, length in zip(names, size, strict=True):
            index[name] = max(index.get(name, 1), length)
    return math.prod(index.values())


def grouped(node: Node, symbols: Symbols) -> int:
    """Products of groups of rows with a matrix each, such as the experts of a mixture.

    Rows [tokens × k, inputs] of k experts per token, each with one matrix of [experts, inputs, outputs]: tokens × k ×
    inputs × outputs, whichever experts are chosen. Groups of columns share one sum over the tokens.
    """
    first, other = sizes_at(node, "data_in", symbols), sizes_at(node, second(node), symbols)
    if len(first) == len(other) == 2:
        return first[0] * math.prod(other)
    return contract_last(node, symbols)


def bilinear(node: Node, symbols: Symbols) -> int:
    """Results × inputs × other inputs: x1ᵀ·W·x2 for each result."""
    port = "weight" if "weight" in node.ports else "data_in_2"
    return outer(node, symbols) * math.prod(sizes_at(node, port, symbols)[1:])


# -- recurrent layers


def cell(node: Node, symbols: Symbols) -> tuple[Product, ...] | None:
    """One step: W_ih·x and W_hh·h; None for a function that was recorded without the names of its operands."""
    if "weight" not in node.ports:
        return None
    rows = math.prod(sizes_at(node, "data_in", symbols)[:-1])
    pairs = (("data_in", "weight"), ("data_in_1", "weight_1"))
    return tuple(Product(rows * math.prod(sizes_at(node, w, symbols)), x, w) for x, w in pairs)


def recurrent(node: Node, symbols: Symbols) -> tuple[Product, ...] | None:
    """Each matrix of each layer and direction, once per step of each sample: W_ih, W_hh, and W_hr of projections.

    Only the first layer reads the node's input; later layers and steps read values that no format rounds. None for
    packed sequences and recorded functions, whose operands have other ports.
    """
    if node.target.endswith(".data") or "weight" not in node.ports:
        return None
    steps, both = math.prod(sizes_at(node, "data_in", symbols)[:-1]), _bidirectional(node)
    ports = _matrices(node, symbols)
    each = _each(node, ports, symbols)
    return tuple(
        Product(steps * math.prod(sizes_at(node, port, symbols)),
                "data_in" if i % each == 0 and i < each * (1 + both) else FLOAT, port)
        for i, port in enumerate(ports)
    )  # fmt: skip


def _matrices(node: Node, symbols: Symbols) -> list[str]:
    """The ports of the matrices, without those of the biases, in the order of the parameters."""
    return [p for p in node.ports if p.startswith("weight") and len(sizes_at(node, p, symbols)) == 2]


def _each(node: Node, ports: list[str], symbols: Symbols) -> int:
    """Matrices of a layer in a direction: 3 with a projection, whose matrix is the third, else 2."""
    gates = _GATES.get(node.op.removesuffix("_cell"), 1)
    hidden = sizes_at(node, ports[0], symbols)[0] // gates if ports else 0
    projected = len(ports) > 2 and sizes_at(node, ports[1], symbols)[1] != hidden
    return 3 if projected else 2


def _bidirectional(node: Node) -> bool:
    """lstm(input, hx, params, biases, layers, dropout, train, bidirectional, batch_first), gru and rnn alike."""
    return len(node.args) > 7 and node.args[7] is True


# Per hidden unit and step: sums of the two products, activations, and what combines gates and state. LSTM: 4 + 5 + 4
# (f·c + i·g, o·tanh c), GRU: 3 + 3 + 4 (r·n, n + z·(h − n)), RNN: 1 + 1.
_PER_UNIT = {"lstm": 13, "gru": 10}


def elementwise_flops(node: Node, symbols: Symbols) -> int:
    """Operations of a recurrent layer or cell besides its products: 1 per element of a bias, a sum or an activation."""
    name = node.op.removesuffix("_cell")
    steps = math.prod(sizes_at(node, "data_in", symbols)[:-1])
    ports = _matrices(node, symbols)
    hidden = sum(sizes_at(node, p, symbols)[0] for p in ports[:: _each(node, ports, symbols)]) // _GATES.get(name, 1)
    vectors = [p for p in node.ports if p.startswith(("weight", "bias")) and p not in ports]
    biases = sum(math.prod(sizes_at(node, p, symbols)) for p in vectors)
    return steps * (biases + hidden * _PER_UNIT.get(name, 2))
