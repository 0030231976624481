"""Weights with values that are no numbers: told when a model is opened, since all that is measured then is wrong.

And weights in double precision, which no format makes smaller.
"""

from __future__ import annotations

import torch

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch

_SUMMED = ("float32", "float64", "float16", "bfloat16")


def unsound(graph: Graph, store: WeightStore) -> list[Problem]:
    """A warning for each parameter that holds NaN or infinity, at the first node that computes with it; and one for all
    in double precision."""
    found = {name: count for name, w in graph.weights.items() if (count := _strange(w, store))}
    users: dict[str, str] = {}
    for node in graph if found else ():
        for _, name in weights_of(node, graph):
            users.setdefault(name, node.id)
    strange = [Problem(users.get(n), f"{n} holds {told(c)}: results and errors of formats will be wrong.", "warning")
               for n, c in found.items()]  # fmt: skip
    return [*strange, *_double(graph)]


def _double(graph: Graph) -> list[Problem]:
    """Codes give float32 back, so packed files keep what is in double precision as it is, whatever its format."""
    names = [n for n, w in graph.weights.items() if w.dtype == "float64" and w.role == "parameter"]
    if not names:
        return []
    which = f"{names[0]} is" if len(names) == 1 else f"{len(names)} weights ({names[0]} …) are"
    text = f"{which} float64: formats round their values, but stored they stay 64 bits. Open the model in float32."
    return [Problem(None, text, "warning")]


def told(count: int) -> str:
    """`2 values that are not finite numbers`."""
    return "1 value that is not a finite number" if count == 1 else f"{count} values that are not finite numbers"


def _strange(weight: Weight, store: WeightStore) -> int:
    """How many values of a parameter are not finite. Buffers may well be: masks are."""
    if weight.key is None or weight.role != "parameter" or weight.dtype not in _SUMMED:
        return 0
    value = to_torch(store.get(weight.key))
    # What is not finite shows in the sum; so does what is too large for one, which is looked at again. A sum of 64 bits
    # would convert each value first: ten times slower.
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return 0 if bool(value.sum(dtype=wide).isfinite()) else int((~value.isfinite()).sum())
