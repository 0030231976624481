"""Flushing of numbers below 2⁻¹²⁶ to zero: a flag per thread, which training sets for speed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np


def flushed() -> bool:
    """Whether denormals count as 0 in this thread."""
    return bool(np.float32(1e-40) * np.float32(1) == 0)


@contextmanager
def denormals(count: bool = True) -> Generator[None]:
    """Context manager that enables (or disables) denormals, since cached constants must be exact."""
    previous = flushed()
    if previous is not count:  # already in the required state
        yield
        return
    import torch  # not at module level: the window uses formats without torch

    torch.set_flush_denormal(not count)
    try:
        yield
    finally:
        torch.set_flush_denormal(previous)
