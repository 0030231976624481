"""Entropy calibration: divergence of a quantised histogram (Migacz, TensorRT, GTC 2017)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 128  # thresholds
MIN_BINS = 128  # below a threshold
MIN_COUNT = 8  # mean values per bin of a usable histogram


def is_usable(counts: NDArray[np.int64]) -> bool:
    """Whether a histogram has enough values for an estimate of the distribution."""
    return bool(counts.sum() >= MIN_COUNT * len(counts) and len(counts) >= MIN_BINS)


def divergence(counts: NDArray[np.int64], groups: NDArray[Any]) -> float:
    """KL(P ‖ Q) in nats. P: `counts`, with the bins beyond the first len(groups) added to the last non-empty of these.

    Q: the first bins, the mass of each group of bins (one code) spread evenly over its non-empty bins. inf for fewer
    than MIN_BINS bins, or if they are empty.
    """
    if len(groups) < MIN_BINS:
        return math.inf
    inner = counts[: len(groups)].astype(np.float64)
    used = np.flatnonzero(inner)
    if not used.size:
        return math.inf
    mass, sizes = np.bincount(groups, inner), np.bincount(groups, inner > 0)
    q = (mass / np.maximum(sizes, 1))[groups][used]
    p = inner[used]
    p[-1] += counts[len(groups) :].sum()
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def threshold(counts: NDArray[np.int64], levels: int) -> float:
    """The clipping threshold of least divergence as a share of all bins, for codes 0…levels evenly spaced up to it;
    1 if the histogram is not usable."""
    best, least = 1.0, math.inf
    usable = is_usable(counts)
    tried = np.unique(np.linspace(MIN_BINS, len(counts), CANDIDATES).astype(int)) if usable else np.zeros(0, int)
    for bins in tried[::-1]:  # ties: the widest
        lost = divergence(counts, np.rint((np.arange(bins) + 0.5) / bins * levels).astype(np.int64))
        if lost < least:
            best, least = float(bins / len(counts)), lost
    return best
