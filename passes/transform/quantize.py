"""Give ports of nodes a number format. Sets choices only; the build puts the arithmetic in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from model.errors import OptionsError, nearest
from model.formats.base import Format
from model.graph import Graph, Node
from model.meta import Precision
from model.ops import quantisable
from passes.base import Context, Report, transform
from passes.select import Select, chosen

PORTS = ("data_in", "weight", "bias", "data_out")


@dataclass(frozen=True, slots=True)
class Rule:
    """The formats of the selected nodes' ports; None sets a port back to float. Ports not named stay."""

    select: Select
    formats: dict[str, Format | None]

    def __post_init__(self) -> None:
        for port in self.formats:
            if port not in PORTS:
                raise OptionsError(f"formats.{port} is not a port.", nearest(port, PORTS))


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """Rules in order; where two name the same port of a node, the later one holds."""

    rules: tuple[Rule, ...] = field(default=(), metadata={"help": "which nodes get which formats"})


@transform("quantize", "Quantise", QuantizeOptions, instant=True)
def quantize(graph: Graph, options: QuantizeOptions, context: Context) -> tuple[Graph, Report]:
    """Set the number formats of data_in, weight, bias and data_out of the selected nodes."""
    after = graph
    for rule in options.rules:
        after = _apply(after, rule)
    changed = after.delta(graph).changed
    rows = tuple({"node": i, **{p: c.label for p, c in after.nodes[i].precision.items()}} for i in changed)
    labels = Counter(c.label for i in changed for c in after.nodes[i].precision.values())
    return after, Report("quantize", rows, {"nodes": len(changed), "ports": dict(labels)})


def _apply(graph: Graph, rule: Rule) -> Graph:
    nodes = chosen(graph, rule.select, lambda n: bool(_ports(n, rule)), "quantised")
    return graph.replace(*(_with(n, rule) for n in nodes))


def _ports(node: Node, rule: Rule) -> list[str]:
    """A port without a tensor of its own (the bias of a Linear without one) is passed over."""
    return [p for p in rule.formats if p in quantisable(node)]


def _with(node: Node, rule: Rule) -> Node:
    held = dict(node.precision)
    for port in _ports(node, rule):
        fmt = rule.formats[port]
        held.pop(port, None) if fmt is None else held.update({port: Precision(fmt)})
    return replace(node, precision={p: held[p] for p in PORTS if p in held})
