"""What flows into a node: the tensors behind its input ports, and the stored weights among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, TensorMeta, Weight
from espalier.model.graph.node import Node
from espalier.model.graph.operands import named_op, operands
from espalier.model.graph.ops import base_port, floating


def choice(node: Node, port: str) -> Precision | None:
    """The format of a port: its own, or that of data_in for data_in_1, data_in_2, …, which a scale does not go with."""
    found = node.precision.get(port)
    if found is None and (base := base_port(port)) != port and floating(node.ports.get(port)):
        found = node.precision.get(base)
        return replace(found, scale=None) if found and found.scale else found
    return found


def carriers(graph: Graph) -> frozenset[str]:
    """The nodes whose values hang on a floating tensor of the model or of its inputs.

    Masks and positions, which come of whole numbers and truth values alone, do not; formats leave them exact.
    """
    found: set[str] = set()
    for node in graph:
        if node.call == "placeholder":
            holds = floating(node.out)
        elif node.call == "get_attr":
            holds = floating(node.out) and not _is_number(graph.weights[node.weights["value"]])
        else:
            holds = node.call == "call_module" or any(r.node in found for r in node.inputs)
        if holds:
            found.add(node.id)
    return frozenset(found)


def _is_number(weight: Weight) -> bool:
    """Whether a stored tensor is a number in the model's code, such as that which a mask is filled with."""
    return weight.role == "constant" and not weight.shape


def weights_of(node: Node, graph: Graph) -> Iterator[tuple[str, str]]:
    """(port, weight name) of the stored tensors that a node computes with: a module's own, and what a function reads.

    The port is "" where no format holds for it: the node is no call, the tensor a number in the model's code or part
    of an adapter.
    """
    if node.call != "get_attr":
        yield from node.weights.items()
        yield from (("", name) for x in node.adapters.values() for name in (x.a, x.b))
    if node.call in ("get_attr", "placeholder", "output"):
        ports: Iterator[tuple[str, TensorMeta] | None] = iter(())
    else:
        ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    for ref in node.inputs:
        source, found = graph.nodes[ref.node], next(ports, None)
        if source.call == "get_attr":
            name = source.weights["value"]
            yield found[0] if found and not _is_number(graph.weights[name]) else "", name


def weight_at(node: Node, port: str, graph: Graph) -> str | None:
    """The name of the stored tensor that a node takes at `port`; None where there is none, or a computed one."""
    if node.weights:
        return node.weights.get(port)
    return next((name for p, name in weights_of(node, graph) if p == port), None)
