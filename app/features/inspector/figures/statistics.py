"""Statistics of a tensor as in the statistics report: range, mean, deviation, quantiles. numpy only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.tensor_chunks import Stop, chunks, never
from espalier.model.store.weights import Tensor
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.moments import Moments

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """Statistics of finite elements, pruned ones as 0; `quantiles` at SHARES, accurate to 1/2000 of the range."""

    elements: int
    not_finite: int
    low: float
    high: float
    mean: float
    deviation: float
    abs_mean: float
    quantiles: tuple[float, ...]
    zeros: int

    def around(self, deviations: float) -> tuple[float, float]:
        """The range mean ± n standard deviations."""
        return self.mean - deviations * self.deviation, self.mean + deviations * self.deviation


def tensor_statistics(tensor: Tensor, mask: NDArray[np.uint8] | None, stop: Stop = never) -> TensorStatistics:
    """Compute the statistics in one pass over chunks."""
    moments, spread = Moments(), Histogram()
    for x, keep in chunks(tensor, mask, stop):
        values = x if keep is None else np.where(keep, x, np.float32(0))
        moments.add(values)
        spread.add(values)
    return TensorStatistics(
        moments.count,
        moments.not_finite,
        moments.low,
        moments.high,
        moments.mean,
        math.sqrt(moments.variance),
        moments.abs_mean,
        tuple(map(spread.quantile, SHARES)) if moments.count else (),
        moments.zeros,
    )
