"""Splits arrays into cache-sized chunks of finite values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 18
# Attention masks add −3e38 or −inf: larger magnitudes are masks, not signal.
FINITE = 1e30


def finite_chunks(x: NDArray[Any]) -> Iterator[tuple[NDArray[np.float64], int]]:
    """(finite values in float64, number of the others) of at most CHUNK elements each."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK].astype(np.float64)
        if np.abs(chunk).max() < FINITE:  # false for NaN
            yield chunk, 0
        else:
            finite = chunk[np.abs(chunk) < FINITE]
            yield finite, chunk.size - finite.size
