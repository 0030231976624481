"""Chunks of an array on torch's number of threads. Compiled code runs on torch's OpenMP team (`loops/team.py`), whose
idle threads spin and would share the processor with a second pool. What needs Python, other systems and forked children
use a pool of Python threads; the loops release the GIL.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

from espalier.kernels.fake_quant.denormals import denormals, flushed

T = TypeVar("T")
CHUNK = 1 << 17  # elements that are worth a thread: tens of microseconds
HOME = os.getpid()


def parts(size: int) -> int:
    """How many threads so many elements are worth."""
    return min(torch.get_num_threads(), size // CHUNK)


def each(size: int, unit: int) -> int:
    """How many elements of so many, whole units, make a chunk."""
    return -(-size // (max(parts(size), 1) * unit)) * unit


def spread(run: Callable[[slice, slice], T], size: int, unit: int) -> list[T]:
    """`run` (elements, units) over chunks of whole units in parallel, the first in this thread; results in order."""
    step = each(size, unit)
    if step >= size:
        return [run(slice(0, size), slice(0, None))]

    count_denormals = not flushed()  # all threads as this one

    def chunk(start: int) -> T:
        with denormals(count_denormals):
            return run(slice(start, min(start + step, size)), slice(start // unit, (start + step) // unit))

    others = [_pool(os.getpid()).submit(chunk, start) for start in range(step, size, step)]
    return [chunk(0), *(other.result() for other in others)]


def native() -> int:
    """The address of `GOMP_parallel`, as GCC's runtime and LLVM's have it, for compiled code that runs on the team.

    0 without that runtime, in a forked child, where the team's threads do not live on, and on processors whose flags
    for denormals that code does not know."""
    return _address(os.getpid())


@cache
def _address(process: int) -> int:
    if process != HOME or platform.machine() not in ("x86_64", "AMD64"):
        return 0
    try:  # looked up through torch, so that it is the runtime that torch uses
        parallel = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(parallel, ctypes.c_void_p).value or 0


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not live on in a forked child."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
