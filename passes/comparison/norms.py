"""Distance of two stored tensors by the Frobenius norm, one pair at a time, in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EspalierError
from espalier.model.store.weights import Tensor, WeightStore

PIECE = 1 << 20  # elements that are converted at a time
NUMERIC = ("float16", "float32", "float64", "bfloat16")


def relative_distance(
    first: WeightStore, a: str, second: WeightStore, b: str, stop: Callable[[], bool] = lambda: False
) -> float | None:
    """‖B − A‖ / ‖A‖ of the tensors of keys `a` and `b`, in double precision.

    None if one cannot be read, has no float type or another shape, if A is zero, or once `stop()` is true.
    """
    try:
        x, y = first.get(a), second.get(b)
    except EspalierError:
        return None
    if x.shape != y.shape or not {x.dtype, y.dtype} <= set(NUMERIC):
        return None
    flat, other = x.array.reshape(-1), y.array.reshape(-1)
    power = error = 0.0
    for start in range(0, flat.size, PIECE):
        if stop():
            return None
        part = slice(start, start + PIECE)
        before, after = _double(flat[part], x.dtype), _double(other[part], y.dtype)
        power += float(before @ before)
        after = after - before
        error += float(after @ after)
    return math.sqrt(error / power) if power > 0 else None


def _double(part: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    """Values in double precision; bfloat16 is stored as the upper half of a float32."""
    return (Tensor(part, dtype).float32() if dtype == "bfloat16" else part).astype(np.float64)
