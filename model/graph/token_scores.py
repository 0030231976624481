"""Recognises outputs that score each token of a vocabulary at each position, as those of language models do."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node

HOPS = 6  # operations between an input and its embedding, and between the last layer and the output
ROUNDED = 128  # vocabularies are rounded up to multiples of at most this
INTEGERS = ("int64", "int32")
HEADS = ("linear", "matmul")


def token_scores_width(graph: Graph) -> int | None:
    """The number of tokens that the first result of rank 3 scores at each position; None if it scores none.

    It is the result of a product, and as wide as an embedding of the input, or up to ROUNDED − 1 wider.
    """
    outputs = [graph.nodes[ref.node] for ref in graph.output.inputs]
    node = next((n for n in outputs if n.out is not None and len(n.out.shape) == 3), None)
    width = node.out.shape[-1] if node is not None and node.out is not None else None
    if node is None or not isinstance(width, int) or not _is_product(node, graph):
        return None
    tables = [n for n in graph if n.op == "embedding" and "weight" in n.ports and _reads_tokens(n, graph)]
    sizes = [n.ports["weight"].shape[0] for n in tables]
    return width if any(isinstance(rows, int) and rows <= width < rows + ROUNDED for rows in sizes) else None


def _is_product(node: Node, graph: Graph) -> bool:
    """Whether a result is that of a layer or matmul, perhaps scaled or cast."""
    for _ in range(HOPS):
        if node.op in HEADS:
            return True
        inputs = [graph.nodes[ref.node] for ref in node.inputs]
        if len(inputs) != 1 or node.op in ("layer_norm", "rms_norm"):
            return False
        node = inputs[0]
    return False


def _reads_tokens(node: Node, graph: Graph) -> bool:
    """Whether the index of an embedding is an input of the graph, perhaps in another shape."""
    for _ in range(HOPS):
        inputs = [graph.nodes[ref.node] for ref in node.inputs]
        indices = [n for n in inputs if n.out is not None and n.out.dtype in INTEGERS]
        if len(indices) != 1:
            return False
        node = indices[0]
        if node.call == "placeholder":
            return "mask" not in str(node.target)
    return False
