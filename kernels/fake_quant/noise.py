"""Quantisation error in a single pass, without an output tensor or synchronisation of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from espalier.kernels.fake_quant.loops.compiled import any_order

PIECE = 1024  # terms of a float32 sum


def squared_error(x: Tensor, y: Tensor) -> float:
    """Σ(x − y)² of contiguous float32 tensors on the CPU."""
    return float(_squared_error(x.numpy().reshape(-1), y.numpy().reshape(-1)))


@any_order
def _squared_error(x: Any, y: Any) -> Any:
    total = np.float64(0)
    for start in range(0, x.size, PIECE):
        a, b, part = x[start : start + PIECE], y[start : start + PIECE], np.float32(0)
        for i in range(a.size):
            d = a[i] - b[i]
            part += d * d
        total += np.float64(part)
    return total
