"""The output layers of language models, which quantisers leave in float (`lm_head`)."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at

NAME = "lm_head"
SAME = ("to", "cast", "identity", "dropout")


def output_layers(graph: Graph) -> frozenset[str]:
    """Linears named lm_head, and those that give a score for each token of the vocabulary as a result of the model."""
    tokens, results = _vocabulary(graph), _results(graph)
    return frozenset(
        n.id for n in graph if n.op == "linear" and (_last(n) == NAME or (n.id in results and _size(n) == tokens))
    )


def token_embedding(graph: Graph) -> Node | None:
    """The largest embedding of an input of the model; those of positions are of computed numbers."""
    found = [n for n in graph if n.op == "embedding" and weight_at(n, "weight", graph) and _of_input(n, graph)]
    return max(found, key=lambda n: _rows(n, graph), default=None)


def _of_input(node: Node, graph: Graph) -> bool:
    """Whether a node reads an input of the model, but for its shape or type."""
    inputs = {n.id for n in graph.placeholders}
    while node.inputs and node.inputs[0].node not in inputs:
        node = graph.nodes[node.inputs[0].node if node.op != "embedding" else node.inputs[-1].node]
        if category(node) != "shape" and node.op not in SAME:
            return False
    return bool(node.inputs)


def _rows(node: Node, graph: Graph) -> int:
    name = weight_at(node, "weight", graph)
    return graph.weights[name].shape[0] if name else 0


def _vocabulary(graph: Graph) -> int:
    """The rows of the embedding of the tokens; 0 without one."""
    tokens = token_embedding(graph)
    return _rows(tokens, graph) if tokens else 0


def _last(node: Node) -> str:
    return node.target.rpartition(".")[2] if node.call == "call_module" else ""


def _size(node: Node) -> object:
    return node.out.shape[-1] if node.out and node.out.shape else None


def _results(graph: Graph) -> set[str]:
    """Nodes whose result leaves the model, through operations that only move values or change their type."""
    found: set[str] = set()
    waiting = [r.node for r in graph.output.inputs]
    while waiting:
        node = graph.nodes[waiting.pop()]
        if node.id in found:
            continue
        found.add(node.id)
        if category(node) == "shape" or node.op in SAME:
            waiting += [r.node for r in node.inputs]
    return found
