"""Precomputed constants of plans: limits of a format's gradient, and limits in a tensor's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

MOST = np.finfo(np.float32).max


def last_below(code: Callable[[np.float32], float], limit: float, near: float) -> np.float32:
    """The largest finite x ≥ 0 with `code`(x) ≤ `limit`; `code` is monotonic, and `near` is a few steps from the
    result."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.float32(np.clip(near, 0, MOST))
        while x > 0 and code(x) > limit:
            x = np.nextafter(x, np.float32(0))
        above = np.nextafter(x, np.float32(np.inf))
        while above <= MOST and code(above) <= limit:
            x, above = above, np.nextafter(above, np.float32(np.inf))
    return x


def saturated(value: float, dtype: torch.dtype) -> float:
    """`value` rounded to `dtype`, at most its largest finite number."""
    import torch

    if dtype != torch.bfloat16:
        return value
    largest = torch.finfo(dtype).max
    return torch.tensor(value, dtype=torch.float64).clamp(-largest, largest).to(dtype).item()


def most_pattern(dtype: torch.dtype) -> np.int32:
    """float32 pattern of the largest number of `dtype`, which replaces infinity."""
    import torch

    return np.float32(torch.finfo(dtype).max).view(np.int32)
