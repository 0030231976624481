"""Uniform sample of streamed rows: Vitter's algorithm R (1985), seeded, vectorised over a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ELEMENTS = 1 << 16  # maximum size of the sample


class RowSample:
    """A sample in which each row is equally likely; rows longer than ELEMENTS are truncated."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rows: NDArray[np.float32] | None = None
        self._seen = 0

    @property
    def rows(self) -> NDArray[np.float32]:
        """The sample: [rows, row]; [0, 0] if empty."""
        if self._rows is None:
            return np.zeros((0, 0), np.float32)
        return self._rows[: min(self._seen, len(self._rows))]

    def add(self, x: NDArray[Any]) -> None:
        """Add rows [n, row]; rows of another length than the first are ignored."""
        x = x[:, :ELEMENTS]
        if not x.size:
            return
        if self._rows is None:
            self._rows = np.zeros((ELEMENTS // x.shape[1], x.shape[1]), np.float32)
        if x.shape[1] != self._rows.shape[1]:
            return
        numbers = np.arange(self._seen, self._seen + len(x))
        slots = np.where(numbers < len(self._rows), numbers, self._random.integers(0, numbers + 1))
        chosen = slots < len(self._rows)
        # Of several rows for one slot the last is stored, as in the sequential algorithm.
        self._rows[slots[chosen]] = x[chosen]
        self._seen += len(x)
