"""Running HiGHS without its messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Redirect file descriptor 1, since HiGHS writes to it regardless of its options."""
    try:
        original = os.dup(1)
    except OSError:  # closed
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(original, 1)
        os.close(original)
        os.close(null)
