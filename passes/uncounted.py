"""Nodes whose multiply–accumulates are unknown, so that MACs, FLOPs and BitOPs leave them out."""

from __future__ import annotations

from typing import Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import OPS, floating, products
from espalier.model.graph.ports import weights_of
from espalier.passes.score import one_sample

# Products of computed values without a count, and families of them.
PRODUCTS = frozenset({
    "chain_matmul", "cdist", "kron", "matrix_power", "matrix_exp", "conv_tbc", "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd", "mkldnn_rnn_layer", "_weight_int4pack_mm", "_weight_int8pack_mm",
    "_scaled_grouped_mm", "stft", "istft", "grid_sampler",
})  # fmt: skip
FAMILIES = ("linalg_", "fft_", "quantized_")
# They take a stored matrix element by element, or read its rows.
ELEMENTWISE = frozenset({
    "pow", "maximum", "minimum", "lerp", "addcmul", "addcdiv", "atan2", "fmod", "remainder", "hypot", "clamp",
    "clamp_min", "clamp_max", "floor_divide", "copysign", "max", "min", "embedding_bag", "index_add", "scatter_add",
    "scatter_reduce", "index_reduce", "broadcast_tensors", "meshgrid", "l1_loss", "smooth_l1_loss", "huber_loss",
    "kl_div", "cosine_similarity", "batch_norm", "norm",
})  # fmt: skip
SHOWN = 4  # nodes that a note names


def uncounted(graph: Graph) -> list[Node]:
    """The nodes that multiply, or may multiply, and have no count, in order.

    They are products without a formula, foreign code that reads weights or several tensors, and unknown operations
    of a stored matrix with other values.
    """
    return Uncounted().of(graph)


class Uncounted:
    """Finds `uncounted` of successive graphs; unchanged nodes are not read again."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._nodes: dict[str, tuple[Node, bool]] = {}

    def of(self, graph: Graph) -> list[Node]:
        """The nodes of a graph without a count."""
        sizes = one_sample(graph)
        if sizes != self._sizes:
            self._sizes, self._nodes = sizes, {}
        nodes = dict[str, tuple[Node, bool]]()
        for node in graph:
            seen = self._nodes.get(node.id)
            if seen is None or seen[0] is not node:
                if node.call == "get_attr" and self._nodes:  # the weights of functions come by it
                    self._nodes = {}
                    return self.of(graph)
                seen = node, _unknown(node, graph, sizes)
            nodes[node.id] = seen
        self._nodes = nodes
        return [n for n, is_unknown in nodes.values() if is_unknown]


def _unknown(node: Node, graph: Graph, sizes: dict[str, int]) -> bool:
    if node.call in ("placeholder", "get_attr", "output"):
        return False
    row = OPS.get(node.op)
    if row is not None and node.op != "opaque":
        return products(node, sizes) is None
    if node.op in PRODUCTS or node.op.startswith(FAMILIES):
        return True
    if node.op in ELEMENTWISE:
        return False
    matrix = any(len(graph.weights[name].shape) > 1 and graph.weights[name].role != "constant"
                 for _, name in weights_of(node, graph))  # fmt: skip
    operands = sum(floating(m) for p, m in node.ports.items() if not p.startswith("data_out"))
    if node.op == "opaque" or node.call == "opaque":
        return matrix or operands > 1
    return matrix and (operands > 1 or not node.target.startswith("aten."))


def uncounted_note(nodes: list[Node]) -> str:
    """A sentence that names nodes without a count; empty if there are none."""
    if not nodes:
        return ""
    names = ", ".join(f"{n.id} ({n.op})" if n.op != n.id else n.id for n in nodes[:SHOWN])
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f"MACs, FLOPs and BitOPs leave out {names}{more}, whose multiplications are not known."


def uncounted_fields(graph: Graph) -> dict[str, Any]:
    """`{"uncounted": note}` for scores and reports of costs; empty if all is counted."""
    note = uncounted_note(uncounted(graph))
    return {"uncounted": note} if note else {}
