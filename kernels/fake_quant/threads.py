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
CHUNK = 1 << 17  # elements per thread that outweigh its cost: tens of microseconds
HOME = os.getpid()


def thread_count(size: int) -> int:
    """Number of threads for `size` elements."""
    return min(torch.get_num_threads(), size // CHUNK)


def chunk_size(size: int, unit: int) -> int:
    """Elements per chunk for `size` elements, in whole units."""
    return -(-size // (max(thread_count(size), 1) * unit)) * unit


def run_chunks(run: Callable[[slice, slice], T], size: int, unit: int) -> list[T]:
    """Call `run` (elements, units) for chunks of whole units in parallel, the first in this thread; results in
    order."""
    step = chunk_size(size, unit)
    if step >= size:
        return [run(slice(0, size), slice(0, None))]

    count_denormals = not flushed()  # all threads use this thread's flag

    def chunk(start: int) -> T:
        with denormals(count_denormals):
            return run(slice(start, min(start + step, size)), slice(start // unit, (start + step) // unit))

    futures = [_pool(os.getpid()).submit(chunk, start) for start in range(step, size, step)]
    return [chunk(0), *(future.result() for future in futures)]


def openmp_parallel() -> int:
    """Address of `GOMP_parallel` in GCC's or LLVM's OpenMP runtime, for compiled code that runs on torch's team.

    0 without that runtime, in a forked child, where the team's threads do not exist, and on processors whose flags
    for denormals are unknown."""
    return _address(os.getpid())


@cache
def _address(process: int) -> int:
    if process != HOME or platform.machine() not in ("x86_64", "AMD64"):
        return 0
    try:  # looked up in torch's library, so that it is torch's runtime
        parallel = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(parallel, ctypes.c_void_p).value or 0


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """A pool per process, as threads do not survive a fork."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
