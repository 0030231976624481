"""Compiled loops over chunks of a tensor on torch's threads, without Python in the loop if possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from espalier.kernels.fake_quant.loops import team
from espalier.kernels.fake_quant.threads import chunk_size, openmp_parallel, run_chunks, thread_count
from espalier.model.formats.base import Array

Passed = list[tuple[int, slice]]
FINER = 4  # chunks per thread, for load balance
_ADDRESSES: dict[tuple[Any, ...], int] = {}


def over_segments(
    loop: Callable[..., Any], x: Array, out: Array | None, gate: Array | None, unit: int, shared: Array, c: Any
) -> Passed:
    """What `loop` (kernels.fake_quant.loops.segments) gives for chunks of whole segments of `unit` elements and for
    what is left, and where each lies. `shared`: a row a segment, one for all, or none."""

    def run(cut: slice, units: slice) -> tuple[int, slice]:
        short = min(unit, cut.stop - cut.start)
        rows = shared if len(shared) == 1 else shared[units]
        return int(loop(x[cut], _cut(out, cut), _cut(gate, cut), short, rows, c)), cut

    whole_size = x.size - x.size % unit
    results = (
        (_compiled_run(loop, x[:whole_size], out, gate, unit, shared, c) or run_chunks(run, whole_size, unit))
        if whole_size
        else []
    )
    if whole_size < x.size:
        results.append(run(slice(whole_size, x.size), slice(whole_size // unit, None)))
    return results


def _cut(x: Array | None, cut: slice) -> Array | None:
    return None if x is None else x[cut]


def _compiled_run(
    loop: Callable[..., Any], x: Array, out: Array | None, gate: Array | None, unit: int, shared: Array, c: Any
) -> Passed:
    """Of whole segments; empty where one thread does, or Python is needed."""
    parallel = openmp_parallel() if thread_count(x.size) > 1 else 0
    if not parallel:
        return []
    step = -(-x.size // (thread_count(x.size) * FINER * unit)) * unit
    key = (loop, x.dtype, out is None, gate is None, shared.flags.writeable, *map(type, c))
    address = _ADDRESSES.get(key)
    if address is None:
        address = _ADDRESSES[key] = team.address_of(loop, (x, _cut(out, slice(None)), gate, unit, shared, c))
    if not address:
        return []
    results = np.empty(-(-x.size // step), np.int64)
    team.run_segments(parallel, torch.get_num_threads(), address, x, out, gate, unit, shared, c, step, results)
    return [(passes, slice(i * step, min((i + 1) * step, x.size))) for i, passes in enumerate(results.tolist())]


def statistics(loop: Callable[..., Any], x: Array, a: Any, b: Any) -> Array:
    """A row of float64 for each chunk of `x`, into which `loop` (chunk, a, b, row) puts one number or two."""
    step, parallel = chunk_size(x.size, 1), openmp_parallel() if thread_count(x.size) > 1 else 0
    address = _row_address(loop, x.dtype, type(a), type(b)) if parallel else 0
    sums = np.zeros((max(-(-x.size // max(step, 1)), 1), 2))
    if address:
        team.run_sums(parallel, torch.get_num_threads(), address, x, a, b, step, sums)
    else:
        run_chunks(lambda cut, _: loop(x[cut], a, b, sums[cut.start // max(step, 1)]), x.size, 1)
    return sums


@cache
def _row_address(loop: Callable[..., Any], kind: Any, a: type, b: type) -> int:
    return team.address_of(loop, (np.empty(1, kind), a(), b(), np.zeros(2)), None)


def over_rows(
    loop: Callable[..., Any], codes: Array, exponents: Array, out: Array, parameters: tuple[Any, ...]
) -> None:
    """`loop` (rows of codes, of exponents, of `out`, given) over chunks of rows, of codes of two dimensions."""
    size, count = max(codes.size, out.size), max(len(codes), 1)
    dense = all(a.flags.c_contiguous for a in (codes, exponents, out, *parameters) if isinstance(a, np.ndarray))
    parallel = openmp_parallel() if dense and thread_count(size) > 1 else 0  # an address is of one layout
    address = _rows_address(loop, codes, exponents, out, parameters) if parallel else 0
    if address:
        step = -(-count // (thread_count(size) * FINER))
        team.run_rows(parallel, torch.get_num_threads(), address, codes, exponents, out, parameters, step)
    else:
        run_chunks(
            lambda _, rows: loop(codes[rows], exponents[rows], out[rows], parameters), size, max(size // count, 1)
        )


def _rows_address(
    loop: Callable[..., Any], codes: Array, exponents: Array, out: Array, parameters: tuple[Any, ...]
) -> int:
    key = (loop, codes.dtype, exponents.dtype, out.dtype, out.ndim, *map(type, parameters))
    if key not in _ADDRESSES:
        _ADDRESSES[key] = team.address_of(loop, (codes, exponents, out, parameters), None)
    return _ADDRESSES[key]
