"""Settings of glibc's allocator: workers keep freed memory for the next tensors, the window returns it to the system.

Without kept memory each new tensor causes page faults: a fifth of the evaluation time of BERT-mini in formats.
"""

from __future__ import annotations

import ctypes
import os

_TRIM, _MMAP, _ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX of malloc.h
_TRIM_BYTES, _MMAP_BYTES = 1 << 30, 32 << 20  # freed memory to keep; size from which a tensor has its own mapping
_RETURNED_BYTES = 8 << 20  # freed memory at the end of an arena from which it is returned


def keep_freed_memory() -> bool:
    """Keep freed memory; called once per process. False without glibc or if MALLOC_… variables are set."""
    return _set(_TRIM, _TRIM_BYTES) and _set(_MMAP, _MMAP_BYTES)


def return_freed_memory() -> bool:
    """Return freed memory to the system; called once per process. False without glibc or if MALLOC_… variables are set.

    Otherwise glibc raises both limits up to 64 MiB with the sizes that are freed, and `give_back` does not reach the
    end of the arenas of threads.
    """
    return _set(_TRIM, _RETURNED_BYTES) and _set(_MMAP, _RETURNED_BYTES // 2)


def share_arenas(count: int) -> bool:
    """Let all threads share `count` arenas. False without glibc or if MALLOC_… variables are set.

    By default glibc creates up to 8 arenas per processor, and each stays at its largest size. Call it before any thread
    is started.
    """
    return _set(_ARENA_MAX, count)


def _set(option: int, value: int) -> bool:
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(option, value))


def give_back() -> None:
    """Return free memory to the system, for other processes after a job."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> ctypes._NamedFuncPointer | None:  # pyright: ignore[reportPrivateUsage]
    """A function of the C library, or None if the library has no such function (not glibc)."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows has no library without a name
        return None
