"""What an error does to the outputs, from the evidence alone: ½·E[(g·δ)²]. numpy alone, so that the window can ask."""

from __future__ import annotations

import numpy as np

from passes.observed.pieces import FINITE
from passes.sensitivity.evidence import Floats, Low, Rows, Tokens, Vectors

DOUBT = 0.5  # standard errors by which rows must be seen to add up before they are taken to
ALONG = 0.5  # of what errors along a row add to each other's effect: all of it in theory, but known of few rows


def rows_effect(piece: Rows, q: Floats) -> float:
    """Of rows of activations that are `q` instead of piece.x: nats a sample."""
    if piece.through == "softmax":
        error = _softmax(q) - _softmax(piece.x)
    else:
        error = np.where(np.abs(piece.x) < FINITE, q - piece.x, np.float32(0))
    return _felt(error * piece.g, piece)


def tokens_effect(piece: Tokens, error: Floats) -> float:
    """Of an embedding whose rows are off by `error`, [rows of the weight, row]."""
    return _felt(error[piece.ids] * piece.g, piece)


def _felt(each: Floats, piece: Rows | Tokens) -> float:
    """½·E[(g·δ)²] of a sample from some of its rows: each by itself, and what they do together.

    Products of two rows of one sample are known without bias, as rows are kept by chance; they count as far as they
    stand out of their own noise.
    """
    rows = each.sum(1, dtype=np.float64)
    alone = np.einsum("ij,ij->i", each, each, dtype=np.float64)
    single = piece.shares @ (ALONG * np.square(rows) + (1 - ALONG) * alone)
    weighted = rows * piece.shares
    sums = np.bincount(piece.groups, weighted, piece.samples)
    mixed = np.square(sums) - np.bincount(piece.groups, np.square(weighted), piece.samples)
    together = mixed.sum() - DOUBT * float(np.sqrt(np.square(mixed - mixed.mean()).sum()))
    return 0.5 * float(single + max(0.0, together)) / piece.samples


def _softmax(x: Floats) -> Floats:
    top = x.max(-1, keepdims=True)
    raised = np.exp(x - np.where(np.isfinite(top), top, 0))
    return raised / np.maximum(raised.sum(-1, keepdims=True), np.float32(1e-30))


def weight_effect(piece: Vectors | Low, error: Floats, squares: Floats | None = None) -> float:
    """Of a weight off by `error`, as its format sees it: [outputs, inputs]. `squares`: error² @ piece.columns."""
    if isinstance(piece, Vectors):
        return 0.5 * float(np.square((piece.g @ error.reshape(-1)).astype(np.float64)).mean())
    passes, outputs, rank = piece.left.shape
    turned = (error @ piece.right.reshape(passes * rank, -1).T).reshape(outputs, passes, rank)
    rest = float(piece.rows @ (np.square(error) @ piece.columns if squares is None else squares))
    if piece.of <= outputs:
        return 0.5 * (float(np.square(np.einsum("opk,pok->p", turned, piece.left, dtype=np.float64)).mean()) + rest)
    each = np.einsum("opk,pok->po", turned, piece.left, dtype=np.float64)
    factor = piece.of / outputs
    luck = factor**2 * outputs * (1 - 1 / factor) * each.var(1)  # what a sample of rows adds to the square of a sum
    along = np.square(factor * each.sum(1)).mean() - luck.mean()
    return 0.5 * (max(float(along), factor * float(np.square(each).sum(1).mean())) + factor * rest)
