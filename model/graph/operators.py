"""Operators of a graph that torch has only after other code registered them. Free of torch."""

from __future__ import annotations

from espalier.model.graph.graph import Graph

# Namespaces of functions that every process has.
TORCH = frozenset((
    "_c10d_functional", "_dtensor", "_native", "_operator", "_quantized", "aten", "inductor_prims", "math", "mkl",
    "mkldnn", "mkldnn_prepacked", "onednn", "prim", "prims", "quantization", "quantized", "rngprims", "sparse", "torch",
))  # fmt: skip
# Namespace → the module of a package that Espalier requires, which registers its operators.
REGISTERED_BY = {"transformers": "transformers.integrations.moe"}


def foreign_operators(graph: Graph) -> bool:
    """Whether a graph calls operators that only the code of its source registers."""
    called = {n.target.partition(".")[0] for n in graph if n.call == "call_function"}
    return not called <= TORCH | REGISTERED_BY.keys()
