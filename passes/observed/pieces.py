"""Values in pieces that stay in the cache, without what is no signal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 18
# Attention masks add −3e38 or −inf: beyond this a number hides something and tells nothing.
FINITE = 1e30


def pieces(x: NDArray[Any]) -> Iterator[tuple[NDArray[np.float64], int]]:
    """(finite values in float64, how many others there were) of at most PIECE elements each."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, PIECE):
        piece = flat[start : start + PIECE].astype(np.float64)
        if np.abs(piece).max() < FINITE:  # NaN is below nothing
            yield piece, 0
        else:
            kept = piece[np.abs(piece) < FINITE]
            yield kept, piece.size - kept.size
