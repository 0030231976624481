"""Replaces square Linear layers by identities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from espalier.model.errors import GraphError, PassError
from espalier.model.graph.graph import Graph, Node, named_weights
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, chosen
from espalier.passes.structure.blocks import without_unused


@dataclass(frozen=True, slots=True)
class ReplaceLinearOptions:
    """Selected Linear layers."""

    select: Select = field(default=Select(), metadata={"help": "which Linear layers; by name, each must be square"})


@transform("replace_linear", "Replace Linear by identity", ReplaceLinearOptions, instant=True)
def replace_linear(graph: Graph, options: ReplaceLinearOptions, context: Context) -> tuple[Graph, Report]:
    """Replace Linear layers with as many outputs as inputs by an identity, biases included.

    Layers selected by name must all be square; in other selections, layers that are not square stay.
    """
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so no layer can be replaced.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    selected = chosen(graph, options.select, lambda n: n.op == "linear", "replaced by an identity")
    square = [n for n in selected if _sizes(n, graph)[0] == _sizes(n, graph)[1]]
    others = [n for n in selected if n not in square]
    if others and (options.select.by == "name" or not square):
        listed = ", ".join(f"{n.id} ({' → '.join(map(str, _sizes(n, graph)))})" for n in others[:5])
        raise GraphError(f"Only a Linear with as many outputs as inputs can be an identity: {listed}.",
                         "Leave them out of the selection.", others[0].id)  # fmt: skip
    nodes = dict(graph.nodes)
    for node in square:
        nodes[node.id] = _identity(node, {n.id for n in square}, graph)
    after = replace(graph, nodes=nodes, weights=named_weights(nodes.values(), graph.weights))
    after = without_unused(after)
    rows = [_row(n, graph, "") for n in square] + [_row(n, graph, "not square") for n in others]
    removed = sum(w.elements for w in graph.weights.values()) - sum(w.elements for w in after.weights.values())
    return after, Report("replace_linear", tuple(rows), {"replaced": len(square), "left": len(others),
                                                         "parameters_gone": removed})  # fmt: skip


def _sizes(node: Node, graph: Graph) -> tuple[int, int]:
    """(inputs, outputs) of a Linear; (0, 1) for a computed weight."""
    name = weight_at(node, "weight", graph)
    shape = graph.weights[name].shape if name else (0, 1)
    outputs, inputs = shape[::-1] if node.attrs.get("class") == "Conv1D" else shape
    return inputs, outputs


def _identity(node: Node, replaced: set[str], graph: Graph) -> Node:
    """The node as an identity, at an unused module path."""
    path = node.target if node.call == "call_module" else node.module_path or node.id
    used = {n.target for n in graph if n.id not in replaced or n.call != "call_module"}
    while path in used or any(t.startswith(f"{path}.") for t in used):
        path += "_identity"
    ports = {p: m for p, m in node.ports.items() if p in ("data_in", "data_out")}
    return replace(node, op="identity", call="call_module", target=path, args=node.args[:1], kwargs={}, ports=ports,
                   weights={}, attrs={"class": "Identity"}, precision={}, sparsity={}, adapters={})  # fmt: skip


def _row(node: Node, graph: Graph, note: str) -> Row:
    inputs, outputs = _sizes(node, graph)
    return {"node": node.id, "inputs": inputs, "outputs": outputs, "note": note}
