"""Weight inheritance: copies weights of a trained model into one of other sizes; others keep their initialisation.

Leading rows and columns (HAT, Wang et al. 2020, arXiv:2005.14187), within leading heads; evenly spaced layers
(DistilBERT, Sanh et al. 2019, arXiv:1910.01108), or by relative depth (stacking, Gong et al. 2019)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.structure.axes import Axis, Dims, factors
from espalier.passes.structure.sets import structure_of

Indices = NDArray[np.int64]  # for each index of the new dimension the old one; −1: none
_NUMBER = re.compile(r"^(.*?)\.(\d+)\.")
_SAME = "parameter", "buffer"


@dataclass(frozen=True, slots=True)
class Inherited:
    """The graph with inherited weights; `taken` of the `elements` of its parameters are inherited."""

    graph: Graph
    taken: int
    elements: int

    @property
    def share(self) -> float:
        """Inherited share of all parameters, from 0 to 1."""
        return self.taken / self.elements if self.elements else 0.0


def inherit(graph: Graph, store: WeightStore, source: Graph, other: WeightStore) -> Inherited:
    """`graph`, with weights in `store`, with the values of `source`, with weights in `other`, where sizes allow."""
    names = _pairs(graph.weights, source.weights)
    ours, theirs = _dims(graph), _dims(source)
    weights, taken = dict(graph.weights), 0
    for name, of in names.items():
        new, old = graph.weights[name], source.weights[of]
        if new.role not in _SAME or new.key is None or old.key is None or len(new.shape) != len(old.shape):
            continue
        sides = zip(new.shape, old.shape, ours.get(name, ((),) * 9), theirs.get(of, ((),) * 9), strict=False)
        indices = [_indices(n, o, _factors(a), _factors(b)) for n, o, a, b in sides]
        weights[name], count = _copied(new, old, indices, store, other)
        taken += count if new.role == "parameter" else 0
    total = sum(w.elements for w in weights.values() if w.role == "parameter")
    return Inherited(replace(graph, weights=weights), taken, total)


def _copied(
    new: Weight, old: Weight, indices: list[Indices], store: WeightStore, other: WeightStore
) -> tuple[Weight, int]:
    """(the weight with the old one's values at these indices, number of copied elements)."""
    assert new.key is not None and old.key is not None
    given = other.get(old.key)
    if new.dtype != old.dtype:
        return new, 0
    if new.shape == old.shape and all(bool((p == np.arange(len(p))).all()) for p in indices):
        return replace(new, key=store.hold(given)), new.elements
    values = np.array(store.get(new.key).array)
    valid = [np.flatnonzero(p >= 0) for p in indices]
    values[np.ix_(*valid)] = given.array[np.ix_(*(p[t] for p, t in zip(indices, valid, strict=True)))]
    return replace(new, key=store.hold(Tensor(values, new.dtype))), int(np.prod([len(t) for t in valid]))


# -- weights


def _pairs(new: Iterable[str], old: Iterable[str]) -> dict[str, str]:
    """New name → old name, layers by relative depth."""
    counts, names = _counts(new), set(old)
    before = _counts(names)
    return {n: o for n in new if (o := _older(n, counts, before)) in names}


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Path of a list of layers → its length."""
    counts: dict[str, int] = {}
    for name in names:
        if match := _NUMBER.match(name):
            counts[match[1]] = max(counts.get(match[1], 0), int(match[2]) + 1)
    return counts


def _older(name: str, counts: dict[str, int], before: dict[str, int]) -> str:
    match = _NUMBER.match(name)
    if match is None or match[1] not in before:
        return name
    number = int(match[2]) * before[match[1]] // counts[match[1]]
    return f"{match[1]}.{number}.{name[match.end() :]}"


# -- indices


def _dims(graph: Graph) -> dict[str, tuple[Dims, ...]]:
    """The axes of each weight's dimensions (heads and elements of a head), if they can be inferred."""
    try:
        return dict(structure_of(graph).flow.weights)
    except EspalierError:
        return {}


def _factors(dims: Any) -> list[Axis]:
    return factors(dims)


def _indices(new: int, old: int, ours: list[Axis], theirs: list[Axis]) -> Indices:
    """Equal sizes match in order; products match by factor, rows by piece; otherwise the leading indices match."""
    if new == old:
        return np.arange(new)
    if len(ours) == len(theirs) > 1:
        indices = np.zeros(1, np.int64)
        for a, b in zip(ours, theirs, strict=True):
            inner = _indices(a.size.count, b.size.count, _parts(a), _parts(b))
            both = (indices[:, None] >= 0) & (inner[None, :] >= 0)
            indices = np.where(both, indices[:, None] * b.size.count + inner[None, :], -1).reshape(-1)
        return indices
    if len(ours) == len(theirs) == 1 and (ours[0].form, theirs[0].form) == ("row", "row"):
        return _rows(ours[0].parts, theirs[0].parts, new, old)
    return _leading(new, old)


def _parts(axis: Axis) -> list[Axis]:
    """The row of an axis within a product; empty for a plain axis."""
    return [axis] if axis.form == "row" else []


def _rows(ours: tuple[Axis, ...], theirs: tuple[Axis, ...], new: int, old: int) -> Indices:
    if len(ours) != len(theirs):
        return _leading(new, old)
    pieces, start = list[Indices](), 0
    for a, b in zip(ours, theirs, strict=True):
        inner = _indices(a.size.count, b.size.count, _factors((a,)), _factors((b,)))
        pieces.append(np.where(inner >= 0, inner + start, -1))
        start += b.size.count
    return np.concatenate(pieces)


def _leading(new: int, old: int) -> Indices:
    return np.where(np.arange(new) < old, np.arange(new), -1)
