"""Predicts the effect of any candidate at one port on the outputs, and its noise-to-signal ratio.

numpy only, for the window; the worker passes a faster `Rounding` and `Part.thin`.
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
from espalier.passes.observed.chunks import FINITE
from espalier.passes.observed.shift_selection import least_error
from espalier.passes.sensitivity.gradient_statistics import Floats, GradientStatistics, LowRank, Piece, Rows, Tokens
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.predict import (
    Effect,
    Signed,
    rows_divergence,
    softmax,
    tokens_effect,
    weight_effect,
    whole_effect,
)
from espalier.passes.sensitivity.table import Candidate

Rounding = Callable[[Format, Floats], Floats]
WeightEffect = Callable[["Replacement", Floats], tuple[Signed, float, float]]  # effect of each pass, rest, Σ error²
EffectFactory = Callable[[LowRank], WeightEffect]
Mask = NDArray[np.bool_]
SEEN = 1 << 13  # values sampled to choose a binary point
TILE = 16  # consecutive rows of a sample, so that formats with tiles see complete ones
NOISE = 1 << 16  # elements sampled for the error of an embedding's weight


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a tensor's values: `start`, possibly pruned, rounded to a format."""

    start: Floats
    format: Format | None
    rounded: Rounding
    pruned: bool

    @property
    def alone(self) -> bool:
        """Whether rounding needs no further masking."""
        return self.format is not None and (self.format.keeps_zero or not self.pruned)

    def values(self) -> Floats:
        """The replaced values."""
        if self.format is None:
            return self.start
        q = self.rounded(self.format, self.start)
        return q if self.alone else q * (self.start != 0)


@dataclass(frozen=True, slots=True)
class Part:
    """The rounded rows of one tensor in its format's view; the last row of a sample is the one of largest magnitude.

    `shares`: number of rows that each represents; `counted`: number of rows in the error and signal; `ids`: indices of
    the piece's rows in `x`, of an embedding; `rows`: indices in the stored tensor, if not all. `known`: finite elements
    of an activation, None: all; `soft`: its softmax, if the error is taken after one. `thin`: a faster effect function.
    """

    x: Floats
    piece: Piece
    shares: Floats
    counted: int
    ids: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = None
    known: Mask | None = None
    soft: Floats | None = None
    thin: WeightEffect | None = None

    def effect(self, replacement: Replacement) -> tuple[Effect, float]:
        """(effect, Σ error²) of the replacement of `x`; infinite if the effect is not finite."""
        if self.thin is not None:
            sums, rest, squares = self.thin(replacement, self.x)
            return _finite(whole_effect(sums, rest)), squares
        q = replacement.values()
        error = q - self.x
        counted = self._masked(error[: self.counted])
        squares = float(self.shares @ np.einsum("ij,ij->i", counted, counted))
        return _finite(self._effect(q, error)), squares

    def _effect(self, q: Floats, error: Floats) -> Effect:
        piece = self.piece
        if isinstance(piece, Rows):
            if self.soft is not None:
                return rows_divergence(piece, softmax(q[: self.counted]) - self.soft)
            return rows_divergence(piece, self._masked(error[: self.counted]))
        if isinstance(piece, Tokens):
            assert self.ids is not None
            return tokens_effect(replace(piece, ids=self.ids), error)
        return weight_effect(piece, error[: self.counted])

    def _masked(self, error: Floats) -> Floats:
        return error if self.known is None else np.where(self.known, error, np.float32(0))

    def signal(self) -> float:
        """Σ x² over the finite values."""
        x = self._masked(self.x[: self.counted])
        return float(self.shares @ np.einsum("ij,ij->i", x, x))


def _finite_of(x: Floats) -> Floats:
    every = x.min(initial=0.0) > -FINITE and x.max(initial=0.0) < FINITE  # both false for NaN
    return x.reshape(-1) if every else x[np.abs(x) < FINITE]


def _finite(effect: Effect) -> Effect:
    finite = math.isfinite(effect.kl) and bool(np.isfinite(effect.along).all())
    return effect if finite else Effect(math.inf, np.zeros_like(effect.along))


@dataclass(frozen=True, slots=True)
class Prediction:
    """kl: predicted divergence. noise: noise-to-signal ratio. along: see Effect."""

    kl: float
    noise: float
    along: Signed


class PortPredictor:
    """Predictor of one port. `elements`: number of values of a weight, or of a sample's activation."""

    def __init__(self, place: FormatPort, parts: Sequence[Part], elements: int) -> None:
        self.place, self.parts, self.elements = place, tuple(parts), elements
        finite = [_finite_of(p.x) for p in parts]
        self._signal = sum(p.signal() for p in parts)
        step = sum(x.size for x in finite) // SEEN + 1 | 1
        self._sample = np.concatenate([np.zeros(0, np.float32), *(x[::step] for x in finite)])
        self._low = min((float(x.min(initial=0.0)) for x in finite), default=0.0)
        self._high = max((float(x.max(initial=0.0)) for x in finite), default=0.0)

    def fitted(self, fmt: Format, rounded: Rounding = Format.rounded) -> Format:
        """The format with the binary point or exponent bias of least error here."""
        if not fmt.shift or not self._sample.any():
            return fmt
        return least_error(fmt, self._sample, self._low, self._high, rounded)

    def kl_and_noise(self, candidate: Candidate, rounded: Rounding = Format.rounded) -> tuple[float, float]:
        """(predicted divergence, noise-to-signal ratio) of a candidate, without fitting."""
        prediction = self.predict(candidate, rounded)
        return prediction.kl, prediction.noise

    def predict(self, candidate: Candidate, rounded: Rounding = Format.rounded, mask: Mask | None = None) -> Prediction:
        """Predict a candidate, without fitting. `mask`: of the stored tensor in the format's view, instead of pruning
        the smallest magnitudes."""
        kl, squares, along = 0.0, 0.0, np.zeros(0)
        with np.errstate(all="ignore"):
            for part in self.parts:
                start = _pruned(part, candidate.sparsity, mask)
                replacement = Replacement(start, candidate.format, rounded, bool(candidate.sparsity))
                effect, error = part.effect(replacement)
                kl, squares = kl + effect.kl, squares + error
                along = along + effect.along if along.shape == effect.along.shape else effect.along
        return Prediction(kl, squares / self._signal if self._signal > 0 else 0.0, along)


def port_predictor(
    place: FormatPort,
    evidence: GradientStatistics,
    run: Graph,
    store: WeightStore,
    quick: int = 0,
    thin: EffectFactory | None = None,
) -> PortPredictor | None:
    """The predictor of a port; None if it has no statistics. `quick`: use a sample of about so many elements of a
    stored tensor. `thin`: factory of the faster effect function of weights. Raises PassError if the model has no
    weights.
    """
    if place.key not in evidence.pieces:
        return None
    pieces = evidence.pieces[place.key]
    if place.weight is None:
        parts = [_flowing(p) for p in pieces if isinstance(p, Rows) and len(p.x)]
        rows = [p for p in pieces if isinstance(p, Rows)]
        return PortPredictor(place, parts, sum(round(float(p.shares.sum()) / p.samples * p.x.shape[1]) for p in rows))
    x = stored(place, run, store)
    return PortPredictor(place, [_stored(pieces[0], x, quick, thin)], x.size)


def stored(place: FormatPort, run: Graph, store: WeightStore) -> Floats:
    """The masked stored tensor of a port in its format's view: [rows, row]."""
    node, port = run[place.tensors[0][0]], place.tensors[0][1]
    weight = run.weights[place.weight or ""]
    if weight.key is None:
        raise PassError(
            "The model was opened without weights, so there is nothing to predict.", "Open it with weights."
        )
    x = store.get(weight.key).float32()
    sparsity = node.sparsity.get(port)
    if sparsity is not None and sparsity.mask is not None:
        x = x * np.unpackbits(store.get(sparsity.mask).array, count=x.size).astype(bool).reshape(x.shape)
    return as_rows(x, view_at(node, port))


def as_rows(x: NDArray[Any], view: View | None) -> NDArray[Any]:
    """An array in its port's view, as [rows, row]."""
    turned = x if view is None else view.of_array(x)
    return np.ascontiguousarray(turned).reshape(-1, turned.shape[-1] if turned.ndim else 1)


def _flowing(piece: Rows) -> Part:
    x = np.concatenate([piece.x, piece.peak[None]]) if piece.peak.size else piece.x
    known = np.abs(piece.x) < FINITE
    with np.errstate(all="ignore"):
        soft = softmax(piece.x) if piece.through == "softmax" else None
    every = bool(known.all()) and bool((np.abs(piece.peak) < FINITE).all())
    return Part(x, piece, piece.shares, len(piece.x), known=None if every else known, soft=soft)


def _stored(piece: Piece, x: Floats, quick: int, thin: EffectFactory | None) -> Part:
    if isinstance(piece, Tokens):
        return _looked_up(piece, x, quick)
    rows = _spread(len(x), quick // max(x.shape[1], 1)) if quick and x.size > quick else None
    if rows is None or not isinstance(piece, LowRank):
        met = thin(piece) if thin is not None and isinstance(piece, LowRank) else None
        return Part(x, piece, np.ones(len(x), np.float32), len(x), thin=met)
    some = replace(piece, left=_by_rows(piece.left, rows), rows=piece.rows[rows], of=len(x))
    every = np.concatenate([rows, _peak(x)])
    shares = np.full(len(rows), len(x) / len(rows), np.float32)
    return Part(x[every], some, shares, len(rows), rows=every)


def _by_rows(left: Floats, rows: NDArray[np.int64]) -> Floats:
    """Select rows, stored contiguously by row for the matrix products."""
    return np.ascontiguousarray(left.transpose(1, 0, 2)[rows]).transpose(1, 0, 2)


def _looked_up(piece: Tokens, x: Floats, quick: int) -> Part:
    """A uniform sample of all rows, then the rows that were looked up, then the one of largest magnitude."""
    most = max(TILE, (quick or NOISE * 4) // max(x.shape[1], 1) // 2)
    if quick and len(piece.ids) > most:
        piece = replace(
            piece,
            ids=piece.ids[:most],
            g=piece.g[:most],
            groups=piece.groups[:most],
            shares=piece.shares[:most] * np.float32(len(piece.ids) / most),
        )
    uniform = _spread(len(x), min(most, NOISE // max(x.shape[1], 1)))
    ids, inverse = np.unique(piece.ids, return_inverse=True)
    every = np.concatenate([uniform, ids, _peak(x)])
    shares = np.full(len(uniform), len(x) / max(len(uniform), 1), np.float32)
    return Part(x[every], piece, shares, len(uniform), inverse.reshape(-1) + len(uniform), every)


def _peak(x: Floats) -> NDArray[np.int64]:
    """Index of the row with the largest magnitude, as [1]."""
    tops = np.maximum(x.max(1, initial=0.0), -x.min(1, initial=0.0))
    return tops.argmax(keepdims=True) if len(x) else np.zeros(0, np.int64)


def _spread(rows: int, wanted: int) -> NDArray[np.int64]:
    """Indices of about `wanted` rows, in tiles, spread evenly."""
    tiles = max(1, wanted // TILE)
    starts = np.unique(np.linspace(0, max(0, rows - TILE), tiles).astype(np.int64))
    return np.unique((starts[:, None] + np.arange(min(TILE, rows))).reshape(-1))


def _pruned(part: Part, sparsity: float, mask: Mask | None) -> Floats:
    """`x` with its mask applied, or with its smallest magnitudes set to 0."""
    if mask is not None:
        return part.x * (mask if part.rows is None else mask[part.rows])
    if not sparsity or not part.x.size:
        return part.x
    sizes = np.abs(part.x)
    drop = min(round(sparsity * sizes.size), sizes.size)
    limit = np.partition(sizes.reshape(-1), drop - 1)[drop - 1] if drop else np.float32(-1)
    return np.where(sizes <= limit, np.float32(0), part.x)
