"""The ports that take a format, their tensors, and the graph in which gradients are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.operands import input_ports
from espalier.model.graph.ops import base_port, decomposable, floating, offered
from espalier.model.graph.ports import carriers, weight_at
from espalier.passes.attention import decomposed
from espalier.passes.figure import EXPANSION, OPENED

Tensor = tuple[str, str]  # (node of the graph that is run, port)


@dataclass(frozen=True, slots=True)
class FormatPort:
    """A port that takes a format, and the tensors that the format applies to, in the decomposed graph.

    `weight`: name of the stored tensor, if any; `tensors` then contains its single use.
    """

    node: str
    port: str
    tensors: tuple[Tensor, ...]
    weight: str | None = None

    @property
    def key(self) -> str:
        """The name in files."""
        return f"{self.node}:{self.port}"


def expansion(graph: Graph, base: Graph | None) -> Graph:
    """The graph in which gradients are computed: in float, without the recipe's masks.

    That is the model as opened if the steps only choose formats and masks. If they change weights, it is the present
    model in float with its masks, since weights may have been trained with them.
    """
    same = base is not None and _same_weights(graph, base)
    bare: list[Node] = []
    for node in graph:
        opened = base.nodes.get(node.id) if same and base is not None else None
        masks = node.sparsity if opened is None else opened.sparsity
        bare.append(replace(node, precision={}, sparsity=masks, arithmetic="float"))
    return graph.replace(*bare)


def expansion_name(graph: Graph, base: Graph | None) -> str:
    """The name of that baseline: opened, or the present weights in float."""
    opened = base is None or (_same_weights(graph, base) and dict(expansion(graph, base).nodes) == dict(base.nodes))
    return OPENED if opened else EXPANSION


def _same_weights(graph: Graph, base: Graph) -> bool:
    return all(base.weights.get(k) == w for k, w in graph.weights.items() if not _is_scale(k, graph))


def _is_scale(name: str, graph: Graph) -> bool:
    return any(c.scale == name for n in graph for c in n.precision.values())


def decompose_attentions(graph: Graph) -> tuple[Graph, dict[str, tuple[str, ...]]]:
    """(graph with decomposed attentions, nodes of each); attentions that cannot be decomposed are unchanged."""
    ids = [n.id for n in graph if decomposable(n)] if graph.runs == "graph" else []
    try:
        return decomposed(graph, ids) if ids else (graph, {})
    except EspalierError:
        return graph, {}


def format_ports(graph: Graph, run: Graph, parts: dict[str, tuple[str, ...]]) -> tuple[FormatPort, ...]:
    """All ports of `graph` that take a format, in its order; `run`, `parts`: results of `decompose_attentions`."""
    moved = carriers(run)
    ports: list[FormatPort] = []
    for node in graph:
        if node.call in ("placeholder", "output", "get_attr"):
            continue
        for port in offered(node):
            inner = [run[i] for i in parts.get(node.id, ()) if run[i].op == "matmul"] or [run[node.id]]
            inner = inner[-1:] if port == "data_out" else inner
            tensors = tuple((n.id, p) for n in inner for p in _ports(n, port, run, moved))
            # With two operands, one stored (a norm's gain) and one activation, the port is not a weight.
            weight = weight_at(inner[0], port, run) if len(tensors) == 1 else None
            if tensors:
                ports.append(FormatPort(node.id, port, tensors, weight))
    return tuple(ports)


def _ports(node: Node, port: str, run: Graph, moved: frozenset[str]) -> list[str]:
    """The node's ports that take their format from `port` and carry floating-point tensors."""
    if port in node.weights or port.startswith("data_out"):
        return [port] if floating(node.ports.get(port)) else []
    if node.call == "call_module":
        return [p for p in node.ports if base_port(p) == port and floating(node.ports[p])]
    named = dict(zip(input_ports(node.op, node.args, node.kwargs, run.nodes), node.inputs, strict=False))
    return [p for p, ref in named.items()
            if base_port(p) == port and floating(node.ports.get(p)) and ref.node in moved]  # fmt: skip
