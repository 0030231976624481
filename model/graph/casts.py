"""Format conversions: operands whose consumer has another format than their producer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import Precision
from espalier.model.graph.operands import operands
from espalier.model.graph.ops import base_port, floating, quantisable, spec
from espalier.model.graph.ports import carriers, choice


@dataclass(frozen=True, slots=True)
class Cast:
    """One conversion at a consumer's operand `port`.

    `ref`: source of the operand, of `dtype` in float; `before`: format of the source's values (None: none); `after`:
    format of the operand.
    """

    ref: Ref
    port: str
    dtype: str
    before: Precision | None
    after: Precision

    @property
    def rescales(self) -> bool:
        """Whether only the scale differs."""
        return self.before is not None and self.before.format == self.after.format


def casts(graph: Graph) -> dict[str, tuple[Cast, ...]]:
    """Consumer id → conversions of its operands, for nodes with any."""
    live = carriers(graph)
    pairs = ((n.id, tuple(casts_into(n, graph, live))) for n in graph)
    return {name: into for name, into in pairs if into}


def casts_into(node: Node, graph: Graph, live: Collection[str]) -> Iterator[Cast]:
    """The conversions of a node's operands, in order; `live`: `carriers(graph)`, the nodes whose results have formats.

    A stored tensor is stored in its format, so it is not converted.
    """
    if not node.precision:
        return
    ports = quantisable(node)
    for ref, port in _operands(node, graph):
        after = choice(node, port) if base_port(port) in ports else None
        meta = graph.nodes[ref.node].ports.get(out_port(ref.output))
        if after is None or meta is None or not floating(meta) or ref.node not in live:
            continue
        source = origin(ref, graph)
        producer = graph.nodes[source.node]
        before = choice(producer, out_port(source.output))
        equal = before is not None and (before.format, before.scale) == (after.format, after.scale)
        if producer.call != "get_attr" and not equal:
            yield Cast(ref, port, meta.dtype, before, after)


def origin(ref: Ref, graph: Graph) -> Ref:
    """The result whose values `ref` has, through nodes that only move or reshape them."""
    node = graph.nodes[ref.node]
    while spec(node.op).moves and node.call != "opaque" and node.inputs and choice(node, "data_out") is None:
        ref = node.inputs[0]
        node = graph.nodes[ref.node]
    return ref


def _operands(node: Node, graph: Graph) -> Iterator[tuple[Ref, str]]:
    """(source, port) of a node's operands."""
    if node.call == "call_module":
        yield from ((ref, "data_in") for ref in node.inputs[:1])
        return
    for ref, operand in zip(node.inputs, operands(node.op, node.args, node.kwargs, graph.nodes), strict=True):
        if operand is not None:
            yield ref, operand[0]
