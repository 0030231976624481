"""Checks of weights when a model is opened: NaN and infinite values, which invalidate measurements, and float64."""

from __future__ import annotations

import torch

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch

_SUMMED = ("float32", "float64", "float16", "bfloat16")


def weight_problems(graph: Graph, store: WeightStore) -> list[Problem]:
    """A warning for each parameter with NaN or infinity, at the first node that uses it; one for float64 weights."""
    found = {name: count for name, w in graph.weights.items() if (count := _non_finite_count(w, store))}
    users: dict[str, str] = {}
    for node in graph if found else ():
        for _, name in weights_of(node, graph):
            users.setdefault(name, node.id)
    texts = {
        n: f"{n} holds {non_finite_text(c)}: results and errors of formats will be wrong." for n, c in found.items()
    }
    non_finite = [Problem(users.get(n), text, "warning") for n, text in texts.items()]
    return [*non_finite, *_double(graph)]


def _double(graph: Graph) -> list[Problem]:
    """Codes decode to float32, so packed files store float64 weights unpacked, whatever their format."""
    names = [n for n, w in graph.weights.items() if w.dtype == "float64" and w.role == "parameter"]
    if not names:
        return []
    which = f"{names[0]} is" if len(names) == 1 else f"{len(names)} weights ({names[0]} …) are"
    text = f"{which} float64: formats round the values but store 64 bits each. Open the model in float32."
    return [Problem(None, text, "warning")]


def non_finite_text(count: int) -> str:
    """`2 values that are not finite numbers`."""
    return "1 value that is not a finite number" if count == 1 else f"{count} values that are not finite numbers"


def _non_finite_count(weight: Weight, store: WeightStore) -> int:
    """Number of non-finite values of a parameter; buffers are not checked, since masks may hold −inf."""
    if weight.key is None or weight.role != "parameter" or weight.dtype not in _SUMMED:
        return 0
    value = to_torch(store.get(weight.key))
    # A non-finite value makes the sum non-finite; so does an overflow, hence the exact count. A float64 sum would
    # convert each value first: ten times slower.
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return 0 if bool(value.sum(dtype=wide).isfinite()) else int((~value.isfinite()).sum())
