"""Chunks of an array on torch's number of threads.

The loops release the GIL, so Python threads suffice: no second OpenMP, nothing that breaks after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import torch

from kernels.fake_quant.denormals import denormals, flushed
from model.formats.base import Array

T = TypeVar("T")
CHUNK = 1 << 17  # elements that are worth a thread: tens of microseconds


def parts(size: int) -> int:
    """How many threads so many elements are worth."""
    return min(torch.get_num_threads(), size // CHUNK)


def spread(run: Callable[[slice, slice], T], size: int, unit: int) -> list[T]:
    """`run` (elements, units) over chunks of whole units, this thread taking the first; results in order."""
    each = -(-size // (max(parts(size), 1) * unit)) * unit
    if each >= size:
        return [run(slice(0, size), slice(0, None))]

    count_denormals = not flushed()  # all threads as this one

    def chunk(start: int) -> T:
        with denormals(count_denormals):
            return run(slice(start, min(start + each, size)), slice(start // unit, (start + each) // unit))

    others = [_pool(os.getpid()).submit(chunk, start) for start in range(each, size, each)]
    return [chunk(0), *(other.result() for other in others)]


def chunks(loop: Callable[..., T], x: Array, *constants: Any) -> list[T]:
    """What `loop` (chunk of x, constants) gives for each chunk."""
    return spread(lambda cut, _: loop(x[cut], *constants), x.size, 1)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not live on in a forked child."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
