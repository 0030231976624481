"""The output layers of language models, which quantisers leave in float (`lm_head`)."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at

NAME = "lm_head"


def output_layers(graph: Graph) -> frozenset[str]:
    """Linears named lm_head, and those that give a score for each token of the vocabulary as a result of the model."""
    tokens, results = _vocabulary(graph), _results(graph)
    return frozenset(
        n.id for n in graph if n.op == "linear" and (_last(n) == NAME or (n.id in results and _size(n) == tokens))
    )


def _vocabulary(graph: Graph) -> int:
    """The rows of the largest embedding of an input (positions are computed); 0 without one."""
    inputs = {n.id for n in graph.placeholders}
    sizes = [
        graph.weights[name].shape[0] for n in graph
        if n.op == "embedding" and (name := weight_at(n, "weight", graph)) and inputs & {r.node for r in n.inputs}
    ]  # fmt: skip
    return max(sizes, default=0)


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
        if category(node) == "shape" or node.op in ("to", "cast", "identity", "dropout"):
            waiting += [r.node for r in node.inputs]
    return found
