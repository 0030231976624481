"""Chunks of an array on torch's number of threads.

On torch's own OpenMP team where it is known: torch's idle threads spin between its operations, and a second pool would
share the processor with them. Elsewhere, and after a fork, on a pool of Python threads; the loops release the GIL.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from kernels.fake_quant.denormals import denormals, flushed
from model.formats.base import Array

T = TypeVar("T")
CHUNK = 1 << 17  # elements that are worth a thread: tens of microseconds
HOME = os.getpid()
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def parts(size: int) -> int:
    """How many threads so many elements are worth."""
    return min(torch.get_num_threads(), size // CHUNK)


def spread(run: Callable[[slice, slice], T], size: int, unit: int) -> list[T]:
    """`run` (elements, units) over chunks of whole units, all at once; results in order."""
    each = -(-size // (max(parts(size), 1) * unit)) * unit
    if each >= size:
        return [run(slice(0, size), slice(0, None))]

    count_denormals = not flushed()  # all threads as this one

    def chunk(start: int) -> T:
        with denormals(count_denormals):
            return run(slice(start, min(start + each, size)), slice(start // unit, (start + each) // unit))

    starts = range(0, size, each)
    parallel = _team(os.getpid())
    return _pooled(chunk, starts) if parallel is None else _in_team(parallel, chunk, starts)


def chunks(loop: Callable[..., T], x: Array, *constants: Any) -> list[T]:
    """What `loop` (chunk of x, constants) gives for each chunk."""
    return spread(lambda cut, _: loop(x[cut], *constants), x.size, 1)


def _pooled(chunk: Callable[[int], T], starts: range) -> list[T]:
    """This thread takes the first."""
    others = [_pool(os.getpid()).submit(chunk, start) for start in starts[1:]]
    return [chunk(starts[0]), *(other.result() for other in others)]


def _in_team(parallel: Any, chunk: Callable[[int], T], starts: range) -> list[T]:
    """Whoever of the team is free takes the next: inside a parallel region the team is this thread alone."""
    found: dict[int, T] = {}
    failed: list[BaseException] = []
    places = itertools.count()

    def work(_: Any) -> None:
        try:
            while (place := next(places)) < len(starts):
                found[place] = chunk(starts[place])
        except BaseException as error:  # noqa: BLE001 (C cannot pass it on)
            failed.append(error)

    # The whole team: another size than in torch's operations would end threads here and begin them there.
    parallel(_CALLBACK(work), None, torch.get_num_threads(), 0)
    if failed:
        raise failed[0]
    return [found[place] for place in range(len(starts))]


@cache
def _team(process: int) -> Any:
    """What runs a function on torch's OpenMP team, as GCC's runtime calls it and LLVM's too; None without, or in a
    forked child, where the team's threads do not live on."""
    if process != HOME:
        return None
    try:  # found through torch, so that it is the runtime that torch uses
        parallel = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes, parallel.restype = (_CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return parallel


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not live on in a forked child."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
