"""What an error does to the outputs, from the evidence alone: ½·E[(g·δ)²]. numpy alone, so that the window can ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.passes.sensitivity.evidence import PASSES, Floats, Low, Rows, Tokens, Vectors

Signed = NDArray[np.float64]

DOUBT = 0.5  # standard errors by which rows must be seen to add up before they are taken to
ALONG = 0.5  # of what errors along a row add to each other's effect: all of it in theory, but known of few rows


@dataclass(frozen=True, slots=True)
class Felt:
    """kl: nats a sample. along: of each backward pass the signed change g·δ, so that ½·|Σ along|² is what errors of
    several places do together; as far as it is known, so that ½·|along|² is at most kl."""

    kl: float
    along: Signed


def _known(kl: float, along: Signed) -> Felt:
    """Sums over few rows are as uncertain as they are too large: they count as far as kl bears them out."""
    seen = 0.5 * float(along @ along)
    return Felt(kl, along * min(1.0, kl / seen) if seen > 0 else along)


def tokens_effect(piece: Tokens, error: Floats) -> Felt:
    """Of an embedding whose rows are off by `error`, [rows of the weight, row]."""
    return felt_by_rows(piece, error[piece.ids])


def felt_by_rows(piece: Rows | Tokens, error: Floats) -> Felt:
    """½·E[(g·δ)²] of a sample from some of its rows, off by `error`: each by itself, and what they do together.

    Products of two rows of one sample are known without bias, as rows are kept by chance; they count as far as they
    stand out of their own noise.
    """
    each = error * piece.g
    rows = each.sum(1).astype(np.float64)
    alone = np.einsum("ij,ij->i", each, each).astype(np.float64)
    single = piece.shares @ (ALONG * np.square(rows) + (1 - ALONG) * alone)
    weighted = rows * piece.shares
    sums = np.bincount(piece.groups, weighted, piece.samples)
    mixed = np.square(sums) - np.bincount(piece.groups, np.square(weighted), piece.samples)
    together = mixed.sum() - DOUBT * float(np.sqrt(np.square(mixed - mixed.mean()).sum()))
    size = max(1, -(-piece.samples // PASSES))
    along = np.add.reduceat(sums, np.arange(0, piece.samples, size)) / piece.samples**0.5
    return _known(0.5 * float(single + max(0.0, together)) / piece.samples, along)


def softmax(x: Floats) -> Floats:
    """Over the last axis; −∞ is a logit of no share."""
    top = x.max(-1, keepdims=True)
    raised = np.exp(x - np.where(np.isfinite(top), top, 0))
    return raised / np.maximum(raised.sum(-1, keepdims=True), np.float32(1e-30))


def weight_effect(piece: Vectors | Low, error: Floats) -> Felt:
    """Of a weight off by `error`, as its format sees it: [outputs, inputs]."""
    if isinstance(piece, Vectors):
        sums = (piece.g @ error.reshape(-1)).astype(np.float64)
        return _known(0.5 * float(np.square(sums).mean()), sums / len(sums) ** 0.5)
    return _low_effect(
        piece, error @ piece.right.reshape(-1, piece.right.shape[-1]).T, np.square(error) @ piece.columns
    )


def whole_effect(sums: Signed, rest: float) -> Felt:
    """Of a weight by the signed effect of each pass, and what is known by squares."""
    return _known(0.5 * (float(np.square(sums).mean()) + rest), sums / len(sums) ** 0.5)


def _low_effect(piece: Low, turned: Floats, squares: Floats) -> Felt:
    """The same of what is left of an error: `turned`: error · rightᵀ; `squares`: error² · columns."""
    passes, outputs, rank = piece.left.shape
    turned = turned.reshape(outputs, passes, rank)
    rest = float(piece.rows @ squares)
    if piece.of <= outputs:
        each = (turned * piece.left.transpose(1, 0, 2)).reshape(outputs, -1).sum(0, dtype=np.float64)
        sums = each.reshape(passes, rank).sum(1)
        return _known(0.5 * (float(np.square(sums).mean()) + rest), sums / passes**0.5)
    each = np.einsum("opk,pok->po", turned, piece.left, dtype=np.float64)
    factor = piece.of / outputs
    luck = factor**2 * outputs * (1 - 1 / factor) * each.var(1)  # what a sample of rows adds to the square of a sum
    sums = factor * each.sum(1)
    along = max(float(np.square(sums).mean() - luck.mean()), factor * float(np.square(each).sum(1).mean()))
    return _known(0.5 * (along + factor * rest), sums / passes**0.5)
