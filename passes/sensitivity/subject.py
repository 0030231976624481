"""One place under any candidate: what is rounded, what that does to the outputs, and the error beside the signal.

numpy alone, so that the window can ask; the worker gives a faster `Rounding`, and `Part.thin`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import PassError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.graph.views import View, view_at
from espalier.model.store.weights import WeightStore
from espalier.passes.observed.pieces import FINITE
from espalier.passes.observed.shifts import least_error
from espalier.passes.sensitivity.evidence import Evidence, Floats, Low, Piece, Rows, Tokens
from espalier.passes.sensitivity.places import Place
from espalier.passes.sensitivity.predict import (
    Felt,
    Signed,
    felt_by_rows,
    softmax,
    tokens_effect,
    weight_effect,
    whole_effect,
)
from espalier.passes.sensitivity.table import Candidate

Rounding = Callable[[Format, Floats], Floats]
Meeting = Callable[["Given", Floats], tuple[Signed, float, float]]  # effect of each pass, rest, Σ error²
Thin = Callable[[Low], Meeting]
Mask = NDArray[np.bool_]
SEEN = 1 << 13  # values that a binary point is chosen by
TILE = 16  # rows that stay together in a sample: formats with tiles see whole ones
NOISE = 1 << 16  # elements of a looked-up weight that its error is told of beside


@dataclass(frozen=True, slots=True)
class Given:
    """What stands in the place of values: `start`, which may be pruned, in a format."""

    start: Floats
    format: Format | None
    rounded: Rounding
    pruned: bool

    @property
    def alone(self) -> bool:
        """Whether the format is all that is to be done."""
        return self.format is not None and (self.format.keeps_zero or not self.pruned)

    def values(self) -> Floats:
        """All of it."""
        if self.format is None:
            return self.start
        found = self.rounded(self.format, self.start)
        return found if self.alone else found * (self.start != 0)


@dataclass(frozen=True, slots=True)
class Part:
    """What is rounded of one tensor, as its format sees it: of a sample the row with the largest magnitude is the last.

    `shares`: how many rows each stands for; `counted`: the rows that error and signal are told of; `ids`: where the
    piece's rows lie in `x`, of an embedding; `rows`: which rows of the stored tensor they are, where not all. `known`:
    of what flows, where it is finite, None: everywhere; `soft`: its softmax, where errors are looked at after one.
    `thin`: a quicker way than by the piece.
    """

    x: Floats
    piece: Piece
    shares: Floats
    counted: int
    ids: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = None
    known: Mask | None = None
    soft: Floats | None = None
    thin: Meeting | None = None

    def judged(self, given: Given) -> tuple[Felt, float]:
        """(effect, Σ error²) of what stands instead of `x`; infinite where something is no number any more."""
        if self.thin is not None:
            sums, rest, lost = self.thin(given, self.x)
            return _finite(whole_effect(sums, rest)), lost
        q = given.values()
        error = q - self.x
        counted = self._seen(error[: self.counted])
        lost = float(self.shares @ np.einsum("ij,ij->i", counted, counted))
        return _finite(self._effect(q, error)), lost

    def _effect(self, q: Floats, error: Floats) -> Felt:
        piece = self.piece
        if isinstance(piece, Rows):
            if self.soft is not None:
                return felt_by_rows(piece, softmax(q[: self.counted]) - self.soft)
            return felt_by_rows(piece, self._seen(error[: self.counted]))
        if isinstance(piece, Tokens):
            assert self.ids is not None
            return tokens_effect(replace(piece, ids=self.ids), error)
        return weight_effect(piece, error[: self.counted])

    def _seen(self, error: Floats) -> Floats:
        return error if self.known is None else np.where(self.known, error, np.float32(0))

    def signal(self) -> float:
        """Σ x² over the finite values."""
        x = self._seen(self.x[: self.counted])
        return float(self.shares @ np.einsum("ij,ij->i", x, x))


def _finite_of(x: Floats) -> Floats:
    every = x.min(initial=0.0) > -FINITE and x.max(initial=0.0) < FINITE  # of what is no number neither holds
    return x.reshape(-1) if every else x[np.abs(x) < FINITE]


def _finite(found: Felt) -> Felt:
    known = math.isfinite(found.kl) and bool(np.isfinite(found.along).all())
    return found if known else Felt(math.inf, np.zeros_like(found.along))


@dataclass(frozen=True, slots=True)
class Told:
    """kl: predicted divergence. noise: error over signal. along: see Felt."""

    kl: float
    noise: float
    along: Signed


class Subject:
    """A place of the evidence. `elements`: how many values a sample has there."""

    def __init__(self, place: Place, parts: Sequence[Part], elements: int) -> None:
        self.place, self.parts, self.elements = place, tuple(parts), elements
        known = [_finite_of(p.x) for p in parts]
        self._signal = sum(p.signal() for p in parts)
        step = sum(x.size for x in known) // SEEN + 1 | 1
        self._seen = np.concatenate([np.zeros(0, np.float32), *(x[::step] for x in known)])
        self._low = min((float(x.min(initial=0.0)) for x in known), default=0.0)
        self._high = max((float(x.max(initial=0.0)) for x in known), default=0.0)

    def fitted(self, fmt: Format, rounded: Rounding = Format.rounded) -> Format:
        """The format with the binary point or exponent bias that loses least here."""
        if not fmt.shift or not self._seen.any():
            return fmt
        return least_error(fmt, self._seen, self._low, self._high, rounded)

    def tried(self, candidate: Candidate, rounded: Rounding = Format.rounded) -> tuple[float, float]:
        """(predicted divergence, error over signal) under a candidate as it is."""
        found = self.told(candidate, rounded)
        return found.kl, found.noise

    def told(self, candidate: Candidate, rounded: Rounding = Format.rounded, mask: Mask | None = None) -> Told:
        """What a candidate does as it is. `mask`: of the whole stored tensor, as formats see it, in the place of the
        smallest magnitudes that a sparsity takes."""
        effect, lost, along = 0.0, 0.0, np.zeros(0)
        with np.errstate(all="ignore"):
            for part in self.parts:
                start = _pruned(part, candidate.sparsity, mask)
                given = Given(start, candidate.format, rounded, bool(candidate.sparsity))
                felt, noise = part.judged(given)
                effect, lost = effect + felt.kl, lost + noise
                along = along + felt.along if along.shape == felt.along.shape else felt.along
        return Told(effect, lost / self._signal if self._signal > 0 else 0.0, along)


def subject(
    place: Place, evidence: Evidence, run: Graph, store: WeightStore, quick: int = 0, thin: Thin | None = None
) -> Subject | None:
    """The subject of a place; None where nothing is known of it. `quick`: at most about so many elements of a stored
    tensor, a fair sample of its rows. `thin`: makes the quicker way of whole weights. Raises PassError for weights that
    are not there.
    """
    if place.key not in evidence.pieces:
        return None
    pieces = evidence.pieces[place.key]
    if place.weight is None:
        parts = [_flowing(p) for p in pieces if isinstance(p, Rows) and len(p.x)]
        known = [p for p in pieces if isinstance(p, Rows)]
        return Subject(place, parts, sum(round(float(p.shares.sum()) / p.samples * p.x.shape[1]) for p in known))
    x = stored(place, run, store)
    return Subject(place, [_stored(pieces[0], x, quick, thin)], x.size)


def stored(place: Place, run: Graph, store: WeightStore) -> Floats:
    """The stored tensor of a place after its mask, as its format sees it: [rows, row]."""
    node, port = run[place.tensors[0][0]], place.tensors[0][1]
    weight = run.weights[place.weight or ""]
    if weight.key is None:
        raise PassError(
            "The model was opened without weights, so there is nothing to predict.", "Open it with weights."
        )
    x = store.get(weight.key).float32()
    held = node.sparsity.get(port)
    if held is not None and held.mask is not None:
        x = x * np.unpackbits(store.get(held.mask).array, count=x.size).astype(bool).reshape(x.shape)
    return as_rows(x, view_at(node, port))


def as_rows(x: NDArray[Any], view: View | None) -> NDArray[Any]:
    """An array in the view of its port, as [rows, row]."""
    turned = x if view is None else view.of_array(x)
    return np.ascontiguousarray(turned).reshape(-1, turned.shape[-1] if turned.ndim else 1)


def _flowing(piece: Rows) -> Part:
    x = np.concatenate([piece.x, piece.peak[None]]) if piece.peak.size else piece.x
    known = np.abs(piece.x) < FINITE
    with np.errstate(all="ignore"):
        soft = softmax(piece.x) if piece.through == "softmax" else None
    every = bool(known.all()) and bool((np.abs(piece.peak) < FINITE).all())
    return Part(x, piece, piece.shares, len(piece.x), known=None if every else known, soft=soft)


def _stored(piece: Piece, x: Floats, quick: int, thin: Thin | None) -> Part:
    if isinstance(piece, Tokens):
        return _looked_up(piece, x, quick)
    rows = _spread(len(x), quick // max(x.shape[1], 1)) if quick and x.size > quick else None
    if rows is None or not isinstance(piece, Low):
        met = thin(piece) if thin is not None and isinstance(piece, Low) else None
        return Part(x, piece, np.ones(len(x), np.float32), len(x), thin=met)
    some = replace(piece, left=_by_rows(piece.left, rows), rows=piece.rows[rows], of=len(x))
    every = np.concatenate([rows, _peak(x)])
    shares = np.full(len(rows), len(x) / len(rows), np.float32)
    return Part(x[every], some, shares, len(rows), rows=every)


def _by_rows(left: Floats, rows: NDArray[np.int64]) -> Floats:
    """The same of some rows alone, with what belongs to a row beside each other, as products come."""
    return np.ascontiguousarray(left.transpose(1, 0, 2)[rows]).transpose(1, 0, 2)


def _looked_up(piece: Tokens, x: Floats, quick: int) -> Part:
    """Rows that were looked up, before them a fair sample of all rows, after them the largest."""
    most = max(TILE, (quick or NOISE * 4) // max(x.shape[1], 1) // 2)
    if quick and len(piece.ids) > most:
        piece = replace(
            piece,
            ids=piece.ids[:most],
            g=piece.g[:most],
            groups=piece.groups[:most],
            shares=piece.shares[:most] * np.float32(len(piece.ids) / most),
        )
    fair = _spread(len(x), min(most, NOISE // max(x.shape[1], 1)))
    ids, places = np.unique(piece.ids, return_inverse=True)
    every = np.concatenate([fair, ids, _peak(x)])
    shares = np.full(len(fair), len(x) / max(len(fair), 1), np.float32)
    return Part(x[every], piece, shares, len(fair), places.reshape(-1) + len(fair), every)


def _peak(x: Floats) -> NDArray[np.int64]:
    """The number of the row with the largest magnitude, as [1]."""
    tops = np.maximum(x.max(1, initial=0.0), -x.min(1, initial=0.0))
    return tops.argmax(keepdims=True) if len(x) else np.zeros(0, np.int64)


def _spread(rows: int, wanted: int) -> NDArray[np.int64]:
    """Numbers of about `wanted` rows, in tiles, spread evenly."""
    tiles = max(1, wanted // TILE)
    starts = np.unique(np.linspace(0, max(0, rows - TILE), tiles).astype(np.int64))
    return np.unique((starts[:, None] + np.arange(min(TILE, rows))).reshape(-1))


def _pruned(part: Part, sparsity: float, mask: Mask | None) -> Floats:
    """`x` without what is masked, or without its smallest magnitudes."""
    if mask is not None:
        held = mask if part.rows is None else mask[part.rows]
        return part.x * held
    if not sparsity or not part.x.size:
        return part.x
    sizes = np.abs(part.x)
    drop = min(round(sparsity * sizes.size), sizes.size)
    limit = np.partition(sizes.reshape(-1), drop - 1)[drop - 1] if drop else np.float32(-1)
    return np.where(sizes <= limit, np.float32(0), part.x)
