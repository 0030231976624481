"""Whether numbers below 2⁻¹²⁶ are flushed to zero: a flag per thread, which training sets for speed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np


def flushed() -> bool:
    """Whether denormals count as 0 in this thread."""
    return bool(np.float32(1e-40) * np.float32(1) == 0)


@contextmanager
def denormals(count: bool = True) -> Generator[None]:
    """Let them count (or not) meanwhile: constants that are kept for later must be exact."""
    before = flushed()
    if before is not count:  # as it should be already
        yield
        return
    import torch  # whoever formats numbers without it, as the window does, need not wait for it

    torch.set_flush_denormal(not count)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
