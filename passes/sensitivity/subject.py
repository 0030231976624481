"""One place under any candidate: what is rounded, what that does to the outputs, and the error beside the signal.

numpy alone, so that the window can ask; the worker passes a faster `Rounding` and `Turning`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import PassError
from model.formats.base import Format
from model.graph import Graph
from model.views import View, view_at
from model.weights import WeightStore
from passes.observed.pieces import FINITE
from passes.observed.shifts import least_error
from passes.sensitivity.evidence import Evidence, Floats, Low, Piece, Rows, Tokens, Vectors
from passes.sensitivity.places import Place
from passes.sensitivity.predict import Felt, Signed, low_effect, rows_effect, tokens_effect, weight_effect
from passes.sensitivity.table import Candidate

Rounding = Callable[[Format, Floats], Floats]
Turning = Callable[[Low, Floats, Floats, int], tuple[Floats, Floats]]
Mask = NDArray[np.bool_]
SEEN = 1 << 13  # values that a binary point is chosen by
TILE = 16  # rows that stay together in a sample: formats with tiles see whole ones
BLOCK = 1 << 17  # elements of a stored weight that are looked at together
NOISE = 1 << 16  # elements of a looked-up weight that its error is told of beside


@dataclass(frozen=True, slots=True)
class Part:
    """What is rounded of one tensor, as its format sees it: of a sample the row with the largest magnitude is the last.

    `shares`: how many rows each stands for; `counted`: the rows that error and signal are told of; `ids`: where the
    piece's rows lie in `x`, of an embedding; `rows`: which rows of the stored tensor they are, where not all.
    """

    x: Floats
    piece: Piece
    shares: Floats
    counted: int
    ids: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = None

    def effect(self, q: Floats) -> Felt:
        """Of `q` standing instead of `x`; infinite where something is no number any more."""
        with np.errstate(all="ignore"):
            return _finite(self._effect(q))

    def _effect(self, q: Floats) -> Felt:
        if isinstance(self.piece, Rows):
            return rows_effect(self.piece, q[: len(self.piece.x)])
        if isinstance(self.piece, Tokens):
            assert self.ids is not None
            return tokens_effect(replace(self.piece, ids=self.ids), q - self.x)
        return weight_effect(self.piece, (q - self.x)[: self.counted])

    def judged(self, q: Floats, turning: Turning) -> tuple[Felt, float]:
        """(effect, Σ error²) where `q` stands instead of `x`; of finite values."""
        if not isinstance(self.piece, Low):
            return self.effect(q), self._lost(q)
        with np.errstate(all="ignore"):
            turned, squares = turning(self.piece, q, self.x, self.counted)
            found = _finite(low_effect(self.piece, turned, squares[:, 0]))
        return found, float(self.shares @ squares[:, 1])

    def _lost(self, q: Floats) -> float:
        with np.errstate(all="ignore"):
            error = (q - self.x)[: self.counted]
            if isinstance(self.piece, Rows):
                error = np.where(np.abs(self.x[: self.counted]) < FINITE, error, 0)
            return float(self.shares @ np.einsum("ij,ij->i", error, error))

    def signal(self) -> float:
        """Σ x² over the finite values."""
        x = self.x[: self.counted]
        x = np.where(np.abs(x) < FINITE, x, 0) if isinstance(self.piece, Rows) else x
        return float(self.shares @ np.einsum("ij,ij->i", x, x))


def in_blocks(piece: Low, q: Floats, x: Floats, rows: int) -> tuple[Floats, Floats]:
    """Of each row of q − x the products with the directions kept, and its squares by columns and alone.

    Block by block, so that an error is still in the processor's cache when it is squared.
    """
    count, directions = BLOCK // max(x.shape[1], 1) + 1, piece.right.reshape(-1, piece.right.shape[-1]).T
    weights = np.stack([piece.columns, np.ones_like(piece.columns)], 1)
    turned, squares = np.empty((rows, directions.shape[1]), np.float32), np.empty((rows, 2), np.float32)
    held = np.empty((min(count, rows), x.shape[1]), np.float32)
    for first in range(0, rows, count):
        some = slice(first, min(first + count, rows))
        error = np.subtract(q[some], x[some], out=held[: some.stop - first])
        np.matmul(error, directions, out=turned[some])
        np.matmul(np.square(error, out=error), weights, out=squares[some])
    return turned, squares


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
        flat = [p.x[np.abs(p.x) < FINITE] for p in parts]
        values = np.concatenate(flat) if flat else np.zeros(0, np.float32)
        self._signal = sum(p.signal() for p in parts)
        self._seen = values[:: values.size // SEEN + 1 | 1]
        self._low, self._high = float(values.min(initial=0.0)), float(values.max(initial=0.0))

    def fitted(self, fmt: Format, rounded: Rounding = Format.rounded) -> Format:
        """The format with the binary point or exponent bias that loses least here."""
        if not fmt.shift or not self._seen.any():
            return fmt
        return least_error(fmt, self._seen, self._low, self._high, rounded)

    def tried(self, candidate: Candidate, rounded: Rounding = Format.rounded) -> tuple[float, float]:
        """(predicted divergence, error over signal) under a candidate as it is."""
        found = self.told(candidate, rounded)
        return found.kl, found.noise

    def told(
        self, candidate: Candidate, rounded: Rounding = Format.rounded, mask: Mask | None = None,
        turning: Turning = in_blocks,
    ) -> Told:  # fmt: skip
        """What a candidate does as it is. `mask`: of the whole stored tensor, as formats see it, in the place of the
        smallest magnitudes that a sparsity takes."""
        effect, lost, along = 0.0, 0.0, np.zeros(0)
        for part in self.parts:
            q = _pruned(part, candidate.sparsity, mask)
            if candidate.format is not None:
                with np.errstate(all="ignore"):
                    kept = None if candidate.format.keeps_zero or not candidate.sparsity else q != 0
                    q = rounded(candidate.format, q)
                    q = q if kept is None else q * kept
            felt, noise = part.judged(q, turning)
            effect, lost = effect + felt.kl, lost + noise
            along = along + felt.along if along.shape == felt.along.shape else felt.along
        return Told(effect, lost / self._signal if self._signal > 0 else 0.0, along)


def subject(place: Place, evidence: Evidence, run: Graph, store: WeightStore, quick: int = 0) -> Subject | None:
    """The subject of a place; None where nothing is known of it. `quick`: at most about so many elements of a stored
    tensor, a fair sample of its rows. Raises PassError for weights that are not there.
    """
    if place.key not in evidence.pieces:
        return None
    pieces = evidence.pieces[place.key]
    if place.weight is None:
        parts = [_flowing(p) for p in pieces if isinstance(p, Rows) and len(p.x)]
        known = [p for p in pieces if isinstance(p, Rows)]
        return Subject(place, parts, sum(round(float(p.shares.sum()) / p.samples * p.x.shape[1]) for p in known))
    x = stored(place, run, store)
    return Subject(place, [_stored(pieces[0], x, quick)], x.size)


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
    turned = x if view is None else x.transpose(view.order)
    if view is not None and view.flat:
        return np.ascontiguousarray(turned).reshape(turned.shape[0], -1)
    return np.ascontiguousarray(turned).reshape(-1, turned.shape[-1] if turned.ndim else 1)


def _flowing(piece: Rows) -> Part:
    x = np.concatenate([piece.x, piece.peak[None]]) if piece.peak.size else piece.x
    return Part(x, piece, piece.shares, len(piece.x))


def _stored(piece: Piece, x: Floats, quick: int) -> Part:
    if isinstance(piece, Tokens):
        return _looked_up(piece, x, quick)
    rows = _spread(len(x), quick // max(x.shape[1], 1)) if quick and x.size > quick else None
    if isinstance(piece, Low):
        piece = replace(piece, left=_by_rows(piece.left, rows))
    if rows is None or isinstance(piece, Vectors):
        return Part(x, piece, np.ones(len(x), np.float32), len(x))
    assert isinstance(piece, Low)
    some = replace(piece, rows=piece.rows[rows], of=len(x))
    every = np.concatenate([rows, _peak(x)])
    shares = np.full(len(rows), len(x) / len(rows), np.float32)
    return Part(x[every], some, shares, len(rows), rows=every)


def _by_rows(left: Floats, rows: NDArray[np.int64] | None) -> Floats:
    """The same with what belongs to a row beside each other, as products come; of some rows alone."""
    turned = left.transpose(1, 0, 2)
    return np.ascontiguousarray(turned if rows is None else turned[rows]).transpose(1, 0, 2)


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
