"""Sets number formats of ports. The build adds the arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, Node, without_unused_scales
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import base_port, decomposable, offered, quantisable
from espalier.passes.attention import decomposed
from espalier.passes.base import Context, Report, transform
from espalier.passes.choices.quantize import PORTS, QuantizeOptions, Rule
from espalier.passes.select import Select, by_name, chosen

_NONE = Node("", "", "output", "")


@transform("quantize", "Quantise", QuantizeOptions, instant=True)
def quantize(graph: Graph, options: QuantizeOptions, context: Context) -> tuple[Graph, Report]:
    """Set the number formats of data_in, weight, bias and data_out of the selected nodes."""
    before, nodes, parts = graph, dict[str, Node](), dict[str, tuple[str, ...]]()
    names = by_name(graph) if len(options.rules) > 1 else None
    for i, rule in enumerate(options.rules):
        if not rule.formats:
            raise OptionsError(f"rules[{i}] names no format.", 'Write formats = {weight = "int8"}, or remove the rule.')
        select = _renamed(rule.select, parts)
        # A rule's selection depends on no format, only on the attentions that earlier rules decomposed.
        selected = chosen(graph, select, lambda n, rule=rule: bool(_ports(n, rule)), _purpose(rule), names)
        own_parts = {v: parts[v] for v in rule.select.listed if v in parts}
        attentions = [n.id for n in selected if decomposable(n)]
        if attentions and any(rule.formats.values()):
            graph, new_parts = decomposed(graph, attentions)
            parts, own_parts = parts | new_parts, own_parts | new_parts
            names = by_name(graph) if names is not None else None
            nodes = {k: _rewired(n, graph) for k, n in nodes.items()}
            selected = [n for n in selected if not decomposable(n)]
            selected += [graph[m] for ids in new_parts.values() for m in ids if graph[m].op == "matmul"]
        for node in selected:
            if not decomposable(node):
                nodes[node.id] = _with(nodes.get(node.id, node), _for_part(rule, node, own_parts))
    after = without_unused_scales(graph.replace(*nodes.values()), before)
    delta = after.delta(before)
    changed = [
        i for i in (*delta.added, *delta.changed) if after.nodes[i].precision or before.nodes.get(i, _NONE).precision
    ]
    rows = tuple({"node": i, **{p: c.label for p, c in after.nodes[i].precision.items()}} for i in changed)
    labels = Counter(c.label for i in changed for c in after.nodes[i].precision.values())
    return after, Report("quantize", rows, {"nodes": len(changed), "ports": dict(labels)})


def _purpose(rule: Rule) -> str:
    """The text of the error if no node has any of the ports."""
    return f"quantised at {', '.join(rule.formats)}"


def _ports(node: Node, rule: Rule) -> list[str]:
    """The rule's ports that the node has."""
    return [p for p in rule.formats if p in offered(node)]


def _renamed(select: Select, parts: dict[str, tuple[str, ...]]) -> Select:
    """The selection with names of decomposed attentions replaced by those of their matmuls."""
    if not any(v in parts for v in select.listed):
        return select
    ids = tuple(i for v in select.listed for i in parts.get(v, (v,)))
    return replace(select, nodes=ids) if select.by == "saved" else replace(select, values=ids)


def _rewired(node: Node, graph: Graph) -> Node:
    """The node of `graph` with the formats of `node`."""
    return replace(graph[node.id], precision=node.precision)


def _for_part(rule: Rule, node: Node, parts: dict[str, tuple[str, ...]]) -> Rule:
    """The rule for a part of an attention: only the last part has the attention's data_out."""
    inner = any(node.id in ids[:-1] for ids in parts.values())
    return replace(rule, formats={p: f for p, f in rule.formats.items() if p != "data_out"}) if inner else rule


def _with(node: Node, rule: Rule) -> Node:
    precision = dict(node.precision)
    for port in [p for p in rule.formats if p in quantisable(node)]:
        fmt = rule.formats[port]
        precision.pop(port, None) if fmt is None else precision.update({port: Precision(fmt, gradient=rule.gradient)})
    further = [p for p in precision if p not in PORTS and base_port(p) not in rule.formats]  # with scales of their own
    return replace(node, precision={p: precision[p] for p in (*PORTS, *further) if p in precision})
