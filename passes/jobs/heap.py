"""Memory that tensors leave is kept for the next: given back at once, it comes again a page at a time, emptied.

An evaluation in formats would ask for as much as it quantises: a fifth of a BERT-mini's time.
"""

from __future__ import annotations

import ctypes
import os

_TRIM, _MMAP = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
_KEPT, _ALONE = 1 << 30, 32 << 20  # bytes that stay; from how many on a tensor gets memory of its own


def keep_freed_memory() -> bool:
    """Ask glibc for it, once a process; whether it heard. What the user says in MALLOC_… variables is left."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(_TRIM, _KEPT)) and bool(mallopt(_MMAP, _ALONE))


def give_back() -> None:
    """What is kept and not in use goes back to the system: when a job has ended, others may need it."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> ctypes._NamedFuncPointer | None:  # pyright: ignore[reportPrivateUsage]
    """A function of the C library; None where it has none of this name (it is not glibc)."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows has no library without a name
        return None
