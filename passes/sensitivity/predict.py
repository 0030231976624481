"""Predicts the effect of an error on the outputs from gradient statistics: ½·E[(g·δ)²]. numpy only, for the window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.passes.sensitivity.gradient_statistics import PASSES, Floats, LowRank, Rows, Tokens, Vectors

Signed = NDArray[np.float64]

DOUBT = 0.5  # standard errors subtracted from the joint effect of rows
ALONG = 0.5  # weight of the joint effect within a row: 1 in theory, less because few rows are sampled


@dataclass(frozen=True, slots=True)
class Effect:
    """kl: nats a sample. along: the signed change g·δ of each backward pass, scaled so that ½·|along|² is at most kl;
    ½·|Σ along|² is the joint effect of several errors."""

    kl: float
    along: Signed


def _bounded(kl: float, along: Signed) -> Effect:
    """Scale down `along`: sums over few rows overestimate the change."""
    total = 0.5 * float(along @ along)
    return Effect(kl, along * min(1.0, kl / total) if total > 0 else along)


def tokens_effect(piece: Tokens, error: Floats) -> Effect:
    """Effect of `error` in an embedding's weight, [rows of the weight, row]."""
    return rows_divergence(piece, error[piece.ids])


def rows_divergence(piece: Rows | Tokens, error: Floats) -> Effect:
    """½·E[(g·δ)²] of a sample, estimated from some of its rows with error `error`: single and joint effects.

    Products of two rows of a sample are unbiased estimates, since rows are sampled at random; the joint effect is
    reduced by DOUBT standard errors.
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
    return _bounded(0.5 * float(single + max(0.0, together)) / piece.samples, along)


def softmax(x: Floats) -> Floats:
    """Softmax over the last axis; logits may be −∞."""
    top = x.max(-1, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0))
    return powers / np.maximum(powers.sum(-1, keepdims=True), np.float32(1e-30))


def weight_effect(piece: Vectors | LowRank, error: Floats) -> Effect:
    """Effect of `error` in a weight, in its format's view: [outputs, inputs]."""
    if isinstance(piece, Vectors):
        sums = (piece.g @ error.reshape(-1)).astype(np.float64)
        return _bounded(0.5 * float(np.square(sums).mean()), sums / len(sums) ** 0.5)
    return _low_effect(
        piece, error @ piece.right.reshape(-1, piece.right.shape[-1]).T, np.square(error) @ piece.columns
    )


def whole_effect(sums: Signed, rest: float) -> Effect:
    """Effect in a weight from the signed change of each pass and the sum of the squares."""
    return _bounded(0.5 * (float(np.square(sums).mean()) + rest), sums / len(sums) ** 0.5)


def _low_effect(piece: LowRank, turned: Floats, squares: Floats) -> Effect:
    """Effect of an error from its products; `turned`: error · rightᵀ; `squares`: error² · columns."""
    passes, outputs, rank = piece.left.shape
    turned = turned.reshape(outputs, passes, rank)
    rest = float(piece.rows @ squares)
    if piece.of <= outputs:
        each = (turned * piece.left.transpose(1, 0, 2)).reshape(outputs, -1).sum(0, dtype=np.float64)
        sums = each.reshape(passes, rank).sum(1)
        return _bounded(0.5 * (float(np.square(sums).mean()) + rest), sums / passes**0.5)
    each = np.einsum("opk,pok->po", turned, piece.left, dtype=np.float64)
    factor = piece.of / outputs
    variance = factor**2 * outputs * (1 - 1 / factor) * each.var(1)  # of the sum, since rows are sampled
    sums = factor * each.sum(1)
    along = max(float(np.square(sums).mean() - variance.mean()), factor * float(np.square(each).sum(1).mean()))
    return _bounded(0.5 * (along + factor * rest), sums / passes**0.5)
