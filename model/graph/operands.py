"""Operands of calls: tensors of references by port, from the ports of their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Arg, Node, in_port, out_port, refs
from espalier.model.graph.ops import arg_port


def operands(
    op: str, args: tuple[Arg, ...], kwargs: Mapping[str, Arg], nodes: Mapping[str, Node]
) -> Iterator[tuple[str, TensorMeta] | None]:
    """(port, tensor) of each reference of a call, in order; None for a number."""
    unnamed = 0
    for position, arg in enumerate((*args, *kwargs.values())):
        for index, ref in enumerate(refs((arg,))):
            meta = nodes[ref.node].ports.get(out_port(ref.output))
            if meta is None:
                yield None
                continue
            port = arg_port(op, position, index) if position < len(args) else None
            yield port or in_port(unnamed), meta
            unnamed += port is None or port.startswith("data_in")


def input_ports(
    op: str, args: tuple[Arg, ...], kwargs: Mapping[str, Arg], nodes: Mapping[str, Node]
) -> dict[str, TensorMeta]:
    """The input ports of a call, from its sources in `nodes`."""
    return dict(filter(None, operands(op, args, kwargs, nodes)))


def named_op(node: Node) -> str:
    """The op for argument names; empty for a module, whose first argument is its input."""
    return "" if node.call == "call_module" else node.op


def refreshed(node: Node, nodes: Mapping[str, Node]) -> Node:
    """`node` with input ports from its sources in `nodes`; itself if they are unchanged."""
    if node.call == "output":
        return node
    own = {p: m for p, m in node.ports.items() if p in node.weights and node.call != "get_attr"}
    outs = {p: m for p, m in node.ports.items() if p.startswith("data_out")}
    ports = input_ports(named_op(node), node.args, node.kwargs, nodes) | own | outs
    return node if ports == node.ports else replace(node, ports=ports)
