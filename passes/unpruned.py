"""Which nodes have a weight that `prune` can mask, and the matrices of products that it cannot.

Sparsity counts the latter as not pruned, and notes name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.node import Ref
from espalier.model.graph.operands import named_op, operands
from espalier.model.graph.ops import GROUPED, category, spec
from espalier.model.graph.ports import weight_at, weights_of

SHOWN = 4  # nodes that a note names
MOVES = frozenset({"transpose", "t", "permute", "contiguous", "clone", "detach", "alias"})


@dataclass(frozen=True, slots=True)
class Unpruned:
    """A matrix of this many elements at a node, by name if it is stored. computed: by the model, of its parameters."""

    node: str
    elements: int
    computed: bool


def prunable(node: Node, graph: Graph) -> bool:
    """Linear and convolution layers have a weight that can be pruned, and so have their functions over a stored one."""
    return category(node) == "linear" and node.call != "opaque" and weight_at(node, "weight", graph) is not None


def unpruned_of(node: Node, graph: Graph) -> tuple[tuple[str, Unpruned], ...]:
    """(key, matrix) of the products of a node that no mask can take; equal keys are of one matrix.

    They are parameters of experts, recurrent layers and functions, and the weights of layers that the model computes
    from parameters, as `torch.nn.utils.parametrizations` does.
    """
    if spec(node.op).macs is None or node.call in ("get_attr", "placeholder", "output"):
        return ()
    pruned = weight_at(node, "weight", graph) if prunable(node, graph) else None
    stored = [n for _, n in weights_of(node, graph) if n != pruned and _is_matrix(n, graph)]
    found = [(name, Unpruned(node.id, graph.weights[name].elements, False)) for name in stored]
    if pruned is None:
        found += [x for ref in _weights(node, graph) if (x := _read(node, ref, graph)) is not None]
    return tuple(found)


def _is_matrix(name: str, graph: Graph) -> bool:
    weight = graph.weights[name]
    return len(weight.shape) > 1 and weight.role == "parameter"


def _weights(node: Node, graph: Graph) -> list[Ref]:
    """What computes the operand `weight` of a node, or each operand of a product of matrices."""
    read = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    pairs = [(ref, found[0]) for ref, found in zip(node.inputs, read, strict=False) if found is not None]
    return [ref for ref, port in pairs if port == "weight" and graph.nodes[ref.node].call != "get_attr"]


def _read(node: Node, ref: Ref, graph: Graph) -> tuple[str, Unpruned] | None:
    """The matrix behind a reference: a stored one that is turned, or one that parameters alone give."""
    source = graph.nodes[ref.node]
    while source.op in MOVES and source.inputs:
        source = graph.nodes[source.inputs[0].node]
    if source.call == "get_attr":
        name = source.weights["value"]
        return (name, Unpruned(node.id, graph.weights[name].elements, False)) if _is_matrix(name, graph) else None
    if (category(node) != "linear" and node.op not in GROUPED) or not _is_constant(ref.node, graph):
        return None
    meta = node.ports.get("weight")
    sizes = () if meta is None else meta.shape
    elements = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        elements *= size
    return f"{ref.node}:{ref.output}", Unpruned(node.id, elements, True)


def _is_constant(name: str, graph: Graph) -> bool:
    """Whether a node's value depends on no input of the model."""
    seen, open_ = {name}, [name]
    while open_:
        node = graph.nodes[open_.pop()]
        if node.call == "placeholder":
            return False
        new = {r.node for r in node.inputs} - seen
        seen |= new
        open_ += new
    return True


def unpruned(graph: Graph, nodes: Iterable[Node] | None = None) -> dict[str, Unpruned]:
    """Key → matrix of the nodes, each once; by default of all. Those that other nodes mask are left out."""
    found = dict[str, Unpruned]()
    for node in graph if nodes is None else nodes:
        for key, matrix in unpruned_of(node, graph):
            found.setdefault(key, matrix)
    masked = {weight_at(n, "weight", graph) for n in graph if prunable(n, graph)} if found else set[str | None]()
    return {k: m for k, m in found.items() if k not in masked}


def unpruned_note(matrices: Iterable[Unpruned]) -> str:
    """A sentence that names the nodes of matrices without a mask; empty if there are none."""
    matrices = list(matrices)
    if not matrices:
        return ""
    names = list(dict.fromkeys(f"{m.node}{' (computed from parameters)' if m.computed else ''}" for m in matrices))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    count = sum(m.elements for m in matrices)
    return f"These weights cannot be masked: {', '.join(names[:SHOWN])}{more}, {count:,} elements."


def unpruned_fields(graph: Graph) -> dict[str, str]:
    """`{"unpruned": note}` for scores of graphs with masks; empty if masks can be on all their matrices."""
    masked = any("weight" in n.sparsity for n in graph)
    note = unpruned_note(unpruned(graph).values()) if masked else ""
    return {"unpruned": note} if note else {}
