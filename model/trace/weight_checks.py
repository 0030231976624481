"""Checks of weights when a model is opened: NaN and infinite values, which invalidate measurements, and float64."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

import torch

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey, Weight
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch

_SUMMED = ("float32", "float64", "float16", "bfloat16")
_CONVERTED = ("float8_e4m3fn", "float8_e5m2")  # which torch does not sum
_NAMED = 3  # tensors that a line names
_TEXT = "results and errors of formats will be wrong"
# Keys are hashes of contents, so a count stays true as long as its store lives.
_COUNTS: WeakKeyDictionary[WeightStore, dict[TensorKey, int]] = WeakKeyDictionary()


def weight_problems(graph: Graph, store: WeightStore) -> list[Problem]:
    """A warning for each weight with NaN or infinity, at the first node that uses it; one for float64 weights."""
    counts = non_finite(graph, store)
    users: dict[str, str] = {}
    for node in graph if counts else ():
        for _, name in weights_of(node, graph):
            users.setdefault(name, node.id)
    texts = {n: f"{n} holds {non_finite_text(c)}: {_TEXT}." for n, c in counts.items()}
    return [*(Problem(users.get(n), text, "warning") for n, text in texts.items()), *_double(graph)]


def _double(graph: Graph) -> list[Problem]:
    """Codes decode to float32, so packed files store float64 weights unpacked, whatever their format."""
    names = [n for n, w in graph.weights.items() if w.dtype == "float64" and w.role == "parameter"]
    if not names:
        return []
    which = f"{names[0]} is" if len(names) == 1 else f"{len(names)} weights ({names[0]} …) are"
    text = f"{which} float64: formats round the values but store 64 bits each. Open the model in float32."
    return [Problem(None, text, "warning")]


def counts_of(problems: Iterable[Problem]) -> dict[str, int]:
    """As `non_finite`, from the problems of an opening, without reading the weights."""
    texts = (re.match(rf"(.+) holds (\d+) values? .*: {_TEXT}\.$", p.message) for p in problems)
    return {found[1]: int(found[2]) for found in texts if found}


def non_finite_text(count: int) -> str:
    """`2 values that are not finite numbers`."""
    return "1 value that is not a finite number" if count == 1 else f"{count} values that are not finite numbers"


def non_finite(graph: Graph, store: WeightStore) -> dict[str, int]:
    """Name → number of non-finite values of the weights that have some; of buffers only NaN, as masks may hold ±inf.

    Reads each tensor once for a store.
    """
    counts = _COUNTS.setdefault(store, {})
    found: dict[str, int] = {}
    for name, weight in graph.weights.items():
        if weight.key is None or weight.dtype not in (*_SUMMED, *_CONVERTED):
            continue
        if weight.key not in counts:
            counts[weight.key] = _count(weight, store)
        if counts[weight.key]:
            found[name] = counts[weight.key]
    return found


def weight_warning(counts: Mapping[str, int]) -> tuple[str, ...]:
    """One line on weights with non-finite values, from `non_finite`; nothing without any."""
    if not counts:
        return ()
    names = [f"{name} ({count})" for name, count in list(counts.items())[:_NAMED]]
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    which = f"{names[0]} holds" if len(counts) == 1 else f"{', '.join(names)}{more} hold"
    return (f"{which} values that are not finite numbers (NaN or infinite): {_TEXT}.",)


def _count(weight: Weight, store: WeightStore) -> int:
    assert weight.key is not None
    value = to_torch(store.get(weight.key))
    value = value.float() if weight.dtype in _CONVERTED else value
    # A non-finite value makes the sum non-finite; so does an overflow, hence the exact count. A float64 sum would
    # convert each value first: ten times slower.
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    if bool(value.sum(dtype=wide).isfinite()):
        return 0
    return int((value.isnan() if weight.role == "buffer" else ~value.isfinite()).sum())
