"""The ports that can be given a format, the tensors behind each, and the graph at which gradients are taken."""

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
class Place:
    """A port under its format's name, and the tensors that the format holds for, in the graph that is run.

    `weight`: the stored tensor's name where there is one; `tensors` then names its one use.
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
    """The graph in float, without the masks that the recipe chose: where gradients are taken.

    That is the model as it was opened, as long as the steps choose formats and masks alone. Where they change weights,
    it is the changed model in float, its masks in place, as weights may have been trained under them.
    """
    same = base is not None and _same_weights(graph, base)
    bare: list[Node] = []
    for node in graph:
        held = base.nodes.get(node.id) if same and base is not None else None
        masks = node.sparsity if held is None else held.sparsity
        bare.append(replace(node, precision={}, sparsity=masks, arithmetic="float"))
    return graph.replace(*bare)


def expansion_name(graph: Graph, base: Graph | None) -> str:
    """The name of that baseline: opened, or the present weights in float where it is another model."""
    opened = base is None or (_same_weights(graph, base) and dict(expansion(graph, base).nodes) == dict(base.nodes))
    return OPENED if opened else EXPANSION


def _same_weights(graph: Graph, base: Graph) -> bool:
    return all(base.weights.get(k) == w for k, w in graph.weights.items() if not _is_scale(k, graph))


def _is_scale(name: str, graph: Graph) -> bool:
    return any(c.scale == name for n in graph for c in n.precision.values())


def unfolded(graph: Graph) -> tuple[Graph, dict[str, tuple[str, ...]]]:
    """The graph with its attentions written out, and the nodes of each; those that cannot be stay."""
    ids = [n.id for n in graph if decomposable(n)] if graph.runs == "graph" else []
    try:
        return decomposed(graph, ids) if ids else (graph, {})
    except EspalierError:
        return graph, {}


def places(graph: Graph, run: Graph, parts: dict[str, tuple[str, ...]]) -> tuple[Place, ...]:
    """All ports of `graph` that a format can be chosen for, in its order; `run`, `parts`: what `unfolded` gave."""
    moved = carriers(run)
    found: list[Place] = []
    for node in graph:
        if node.call in ("placeholder", "output", "get_attr"):
            continue
        for port in offered(node):
            inner = [run[i] for i in parts.get(node.id, ()) if run[i].op == "matmul"] or [run[node.id]]
            inner = inner[-1:] if port == "data_out" else inner
            tensors = tuple((n.id, p) for n in inner for p in _ports(n, port, run, moved))
            # Beside a stored operand (a norm's gain) its partner flows: such a place is no weight.
            held = weight_at(inner[0], port, run) if len(tensors) == 1 else None
            if tensors:
                found.append(Place(node.id, port, tensors, held))
    return tuple(found)


def _ports(node: Node, port: str, run: Graph, moved: frozenset[str]) -> list[str]:
    """The ports of a node that take their format from `port`, of tensors that formats touch."""
    if port in node.weights or port.startswith("data_out"):
        return [port] if floating(node.ports.get(port)) else []
    if node.call == "call_module":
        return [p for p in node.ports if base_port(p) == port and floating(node.ports[p])]
    named = dict(zip(input_ports(node.op, node.args, node.kwargs, run.nodes), node.inputs, strict=False))
    return [p for p, ref in named.items()
            if base_port(p) == port and floating(node.ports.get(p)) and ref.node in moved]  # fmt: skip
