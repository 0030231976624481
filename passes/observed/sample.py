"""A fair sample of the rows that stream by: Vitter's algorithm R (1985), seeded, with all draws of a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ELEMENTS = 1 << 16  # at most this many are kept


class RowSample:
    """Whole rows, each seen row equally likely; of rows longer than ELEMENTS their beginning."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rows: NDArray[np.float32] | None = None
        self._seen = 0

    @property
    def rows(self) -> NDArray[np.float32]:
        """What is kept: [rows, row]; [0, 0] before any was seen."""
        if self._rows is None:
            return np.zeros((0, 0), np.float32)
        return self._rows[: min(self._seen, len(self._rows))]

    def add(self, x: NDArray[Any]) -> None:
        """Take in rows [n, row]; rows of another length than the first are passed over."""
        x = x[:, :ELEMENTS]
        if not x.size:
            return
        if self._rows is None:
            self._rows = np.zeros((ELEMENTS // x.shape[1], x.shape[1]), np.float32)
        if x.shape[1] != self._rows.shape[1]:
            return
        numbers = np.arange(self._seen, self._seen + len(x))
        places = np.where(numbers < len(self._rows), numbers, self._random.integers(0, numbers + 1))
        kept = places < len(self._rows)
        # Of several rows for one place the last one stays, as if they had come one by one.
        self._rows[places[kept]] = x[kept]
        self._seen += len(x)
