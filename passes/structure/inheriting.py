"""Weights of a trained model taken over into one of other sizes: leading rows and columns (HAT, Wang et al. 2020,
arXiv:2005.14187), of what is made of heads the leading rows of the leading heads; layers evenly spaced from the first
on (DistilBERT, Sanh et al. 2019, arXiv:1910.01108), of a deeper model each from its relative place (stacking, Gong et
al. 2019). The rest stays as the seed made it.
"""

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

Places = NDArray[np.int64]  # for each place of the new dimension the old one; −1: none
_NUMBER = re.compile(r"^(.*?)\.(\d+)\.")
_SAME = "parameter", "buffer"


@dataclass(frozen=True, slots=True)
class Inherited:
    """The graph with inherited weights, and how many of its parameters' elements they are."""

    graph: Graph
    taken: int
    elements: int

    @property
    def share(self) -> float:
        """Of all parameters, from 0 to 1."""
        return self.taken / self.elements if self.elements else 0.0


def inherit(graph: Graph, store: WeightStore, source: Graph, held: WeightStore) -> Inherited:
    """`graph` with the values of `source` where sizes allow; its own, in `store`, elsewhere."""
    names = _pairs(graph.weights, source.weights)
    ours, theirs = _dims(graph), _dims(source)
    weights, taken = dict(graph.weights), 0
    for name, of in names.items():
        new, old = graph.weights[name], source.weights[of]
        if new.role not in _SAME or new.key is None or old.key is None or len(new.shape) != len(old.shape):
            continue
        sides = zip(new.shape, old.shape, ours.get(name, ((),) * 9), theirs.get(of, ((),) * 9), strict=False)
        places = [_places(n, o, _factors(a), _factors(b)) for n, o, a, b in sides]
        weights[name], count = _taken(new, old, places, store, held)
        taken += count if new.role == "parameter" else 0
    every = sum(w.elements for w in weights.values() if w.role == "parameter")
    return Inherited(replace(graph, weights=weights), taken, every)


def _taken(new: Weight, old: Weight, places: list[Places], store: WeightStore, held: WeightStore) -> tuple[Weight, int]:
    """The weight with the old one's values at these places, and how many they are."""
    assert new.key is not None and old.key is not None
    given = held.get(old.key)
    if new.dtype != old.dtype:
        return new, 0
    if new.shape == old.shape and all(bool((p == np.arange(len(p))).all()) for p in places):
        return replace(new, key=store.hold(given)), new.elements
    values = np.array(store.get(new.key).array)
    there = [np.flatnonzero(p >= 0) for p in places]
    values[np.ix_(*there)] = given.array[np.ix_(*(p[t] for p, t in zip(places, there, strict=True)))]
    return replace(new, key=store.hold(Tensor(values, new.dtype))), int(np.prod([len(t) for t in there]))


# -- which weight comes from which


def _pairs(new: Iterable[str], old: Iterable[str]) -> dict[str, str]:
    """New name → old name, layers at their relative places."""
    counts, held = _counts(new), set(old)
    before = _counts(held)
    return {n: o for n in new if (o := _older(n, counts, before)) in held}


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Path of a list of layers → how many it has."""
    found: dict[str, int] = {}
    for name in names:
        if match := _NUMBER.match(name):
            found[match[1]] = max(found.get(match[1], 0), int(match[2]) + 1)
    return found


def _older(name: str, counts: dict[str, int], before: dict[str, int]) -> str:
    match = _NUMBER.match(name)
    if match is None or match[1] not in before:
        return name
    number = int(match[2]) * before[match[1]] // counts[match[1]]
    return f"{match[1]}.{number}.{name[match.end() :]}"


# -- which place comes from which


def _dims(graph: Graph) -> dict[str, tuple[Dims, ...]]:
    """How each weight's dimensions are made of heads and their parts, where that can be told."""
    try:
        return dict(structure_of(graph).flow.weights)
    except EspalierError:
        return {}


def _factors(dims: Any) -> list[Axis]:
    return factors(dims)


def _places(new: int, old: int, ours: list[Axis], theirs: list[Axis]) -> Places:
    """Equal sizes match as they are; products factor by factor, rows piece by piece; the rest from the first on."""
    if new == old:
        return np.arange(new)
    if len(ours) == len(theirs) > 1:
        found = np.zeros(1, np.int64)
        for a, b in zip(ours, theirs, strict=True):
            inner = _places(a.size.count, b.size.count, _parts(a), _parts(b))
            both = (found[:, None] >= 0) & (inner[None, :] >= 0)
            found = np.where(both, found[:, None] * b.size.count + inner[None, :], -1).reshape(-1)
        return found
    if len(ours) == len(theirs) == 1 and (ours[0].form, theirs[0].form) == ("row", "row"):
        return _rows(ours[0].parts, theirs[0].parts, new, old)
    return _leading(new, old)


def _parts(axis: Axis) -> list[Axis]:
    """What an axis inside a product is made of; nothing of a plain one."""
    return [axis] if axis.form == "row" else []


def _rows(ours: tuple[Axis, ...], theirs: tuple[Axis, ...], new: int, old: int) -> Places:
    if len(ours) != len(theirs):
        return _leading(new, old)
    pieces, start = list[Places](), 0
    for a, b in zip(ours, theirs, strict=True):
        inner = _places(a.size.count, b.size.count, _factors((a,)), _factors((b,)))
        pieces.append(np.where(inner >= 0, inner + start, -1))
        start += b.size.count
    return np.concatenate(pieces)


def _leading(new: int, old: int) -> Places:
    return np.where(np.arange(new) < old, np.arange(new), -1)
