"""Python's garbage collector, at rest for a while."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Disable garbage collection: while Qt iterates over widgets, or while many objects without cycles are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
