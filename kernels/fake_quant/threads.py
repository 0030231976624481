"""Chunks of an array on torch's number of threads.

On torch's own OpenMP team where it is known: torch's idle threads spin between its operations, and a second pool would
share the processor with them. Elsewhere, and after a fork, on a pool of Python threads; the loops release the GIL.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from espalier.kernels.fake_quant.denormals import denormals, flushed

T = TypeVar("T")
CHUNK = 1 << 17  # elements that are worth a thread: tens of microseconds
HOME = os.getpid()
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def parts(size: int) -> int:
    """How many threads so many elements are worth."""
    return min(torch.get_num_threads(), size // CHUNK)


def each(size: int, unit: int) -> int:
    """How many elements of so many, whole units, make a chunk."""
    return -(-size // (max(parts(size), 1) * unit)) * unit


def spread(run: Callable[[slice, slice], T], size: int, unit: int) -> list[T]:
    """`run` (elements, units) over chunks of whole units, all at once; results in order."""
    step = each(size, unit)
    if step >= size:
        return [run(slice(0, size), slice(0, None))]

    count_denormals = not flushed()  # all threads as this one

    def chunk(start: int) -> T:
        with denormals(count_denormals):
            return run(slice(start, min(start + step, size)), slice(start // unit, (start + step) // unit))

    starts = range(0, size, step)
    parallel = _team(os.getpid())
    return _pooled(chunk, starts) if parallel is None else _in_team(parallel, chunk, starts)


def native() -> int:
    """The address of `GOMP_parallel`, for compiled code that runs on the team without Python; 0 where there is none, or
    a processor whose flags for denormals that code does not know."""
    return _address(os.getpid())


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
def _address(process: int) -> int:
    parallel = _team(process) if platform.machine() in ("x86_64", "AMD64") else None
    return 0 if parallel is None else ctypes.cast(parallel, ctypes.c_void_p).value or 0


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not live on in a forked child."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
