"""Memory that tensors leave is kept for the next: given back at once, it comes again a page at a time, emptied.

An evaluation in formats would ask for as much as it quantises: a fifth of a BERT-mini's time.
"""

from __future__ import annotations

import ctypes
import os

_TRIM, _MMAP, _ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX of malloc.h
_KEPT, _ALONE = 1 << 30, 32 << 20  # bytes that stay; from how many on a tensor gets memory of its own


def keep_freed_memory() -> bool:
    """Ask glibc for it, once a process; whether it heard. What the user says in MALLOC_… variables is left."""
    return _set(_TRIM, _KEPT) and _set(_MMAP, _ALONE)


def share_arenas(count: int) -> bool:
    """Let all threads allocate from `count` arenas, whose free memory then serves all; whether glibc heard.

    By itself it makes an arena for each of up to 8 threads a processor, and each stays as large as it ever was. To be
    called before there are threads. What the user says in MALLOC_… variables is left.
    """
    return _set(_ARENA_MAX, count)


def _set(option: int, value: int) -> bool:
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(option, value))


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
