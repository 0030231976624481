"""The tensors at input ports of nodes, and the stored weights among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, TensorMeta, Weight
from espalier.model.graph.node import Node
from espalier.model.graph.operands import named_op, operands
from espalier.model.graph.ops import base_port, floating


def choice(node: Node, port: str) -> Precision | None:
    """The format of a port: its own, or that of data_in for data_in_1, data_in_2, … without its scale."""
    precision = node.precision.get(port)
    if precision is None and (base := base_port(port)) != port and floating(node.ports.get(port)):
        precision = node.precision.get(base)
        return replace(precision, scale=None) if precision and precision.scale else precision
    return precision


def carriers(graph: Graph) -> frozenset[str]:
    """The nodes whose values depend on a floating tensor of the model or its inputs.

    Masks and positions, which depend only on integers and booleans, do not; formats do not round them.
    """
    ids: set[str] = set()
    for node in graph:
        if node.call == "placeholder":
            depends = floating(node.out)
        elif node.call == "get_attr":
            depends = floating(node.out) and not _is_number(graph.weights[node.weights["value"]])
        else:
            depends = node.call == "call_module" or any(r.node in ids for r in node.inputs)
        if depends:
            ids.add(node.id)
    return frozenset(ids)


def _is_number(weight: Weight) -> bool:
    """Whether a stored tensor is a number in the model's code, such as the fill value of a mask."""
    return weight.role == "constant" and not weight.shape


def weights_of(node: Node, graph: Graph) -> Iterator[tuple[str, str]]:
    """(port, weight name) of the stored tensors that a node reads.

    The port is "" for tensors without a format: of a node that is no call, a number in the model's code, or an adapter
    matrix.
    """
    if node.call != "get_attr":
        yield from node.weights.items()
        yield from (("", name) for x in node.adapters.values() for name in (x.a, x.b))
    if node.call in ("get_attr", "placeholder", "output"):
        ports: Iterator[tuple[str, TensorMeta] | None] = iter(())
    else:
        ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    for ref in node.inputs:
        source, operand = graph.nodes[ref.node], next(ports, None)
        if source.call == "get_attr":
            name = source.weights["value"]
            yield operand[0] if operand and not _is_number(graph.weights[name]) else "", name


def weight_at(node: Node, port: str, graph: Graph) -> str | None:
    """The name of the stored tensor at a node's `port`; None for no tensor or a computed one."""
    if node.weights:
        return node.weights.get(port)
    return next((name for p, name in weights_of(node, graph) if p == port), None)


def turned_weight(node: Node, port: str, graph: Graph) -> tuple[str, tuple[int, int]] | None:
    """(name, dimensions that are swapped) of a stored tensor that a port alone reads through a transpose, else None.

    So transformers' experts of a mixture read theirs.
    """
    read = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    pairs = zip(node.inputs, read, strict=False)
    turn = next((graph.nodes[ref.node] for ref, found in pairs if found is not None and found[0] == port), None)
    if turn is None or turn.op != "transpose" or turn.kwargs or turn.precision or turn.sparsity:
        return None
    source = graph.nodes[turn.inputs[0].node]
    first, second = (*turn.args[1:], None, None)[:2]
    if source.call != "get_attr" or not isinstance(first, int) or not isinstance(second, int):
        return None
    name = source.weights["value"]
    users, readers = graph.users(), [n.id for n in graph if name in n.weights.values()]
    alone = users[turn.id] == (node.id,) and users[source.id] == (turn.id,) and readers == [source.id]
    return (name, (first, second)) if alone else None
