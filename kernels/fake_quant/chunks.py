"""Compiled loops over chunks of a tensor on torch's threads, without Python in the loop if possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from espalier.kernels.fake_quant.loops import team
from espalier.kernels.fake_quant.threads import each, native, parts, spread
from espalier.model.formats.base import Array

Passed = list[tuple[int, slice]]
FINER = 4  # chunks a thread: whoever is late leaves some to the others
_ADDRESSES: dict[tuple[Any, ...], int] = {}


def over_stretches(
    loop: Callable[..., Any], x: Array, out: Array | None, gate: Array | None, unit: int, shared: Array, c: Any
) -> Passed:
    """What `loop` (kernels.fake_quant.loops.stretches) gives for chunks of whole stretches of `unit` elements and for
    what is left, and where each lies. `shared`: a row a stretch, one for all, or none."""

    def run(cut: slice, units: slice) -> tuple[int, slice]:
        short = min(unit, cut.stop - cut.start)
        rows = shared if len(shared) == 1 else shared[units]
        return int(loop(x[cut], _cut(out, cut), _cut(gate, cut), short, rows, c)), cut

    whole = x.size - x.size % unit
    found = (_natively(loop, x[:whole], out, gate, unit, shared, c) or spread(run, whole, unit)) if whole else []
    if whole < x.size:
        found.append(run(slice(whole, x.size), slice(whole // unit, None)))
    return found


def _cut(x: Array | None, cut: slice) -> Array | None:
    return None if x is None else x[cut]


def _natively(
    loop: Callable[..., Any], x: Array, out: Array | None, gate: Array | None, unit: int, shared: Array, c: Any
) -> Passed:
    """Of whole stretches; empty where one thread does, or Python is needed."""
    parallel = native() if parts(x.size) > 1 else 0
    if not parallel:
        return []
    step = -(-x.size // (parts(x.size) * FINER * unit)) * unit
    known = (loop, x.dtype, out is None, gate is None, shared.flags.writeable, *map(type, c))
    address = _ADDRESSES.get(known)
    if address is None:
        address = _ADDRESSES[known] = team.address_of(loop, (x, _cut(out, slice(None)), gate, unit, shared, c))
    if not address:
        return []
    found = np.empty(-(-x.size // step), np.int64)
    team.stretches(parallel, torch.get_num_threads(), address, x, out, gate, unit, shared, c, step, found)
    return [(passes, slice(i * step, min((i + 1) * step, x.size))) for i, passes in enumerate(found.tolist())]


def statistics(loop: Callable[..., Any], x: Array, a: Any, b: Any) -> Array:
    """A row of float64 for each chunk of `x`, into which `loop` (chunk, a, b, row) puts one number or two."""
    step, parallel = each(x.size, 1), native() if parts(x.size) > 1 else 0
    address = _row_address(loop, x.dtype, type(a), type(b)) if parallel else 0
    found = np.zeros((max(-(-x.size // max(step, 1)), 1), 2))
    if address:
        team.sums(parallel, torch.get_num_threads(), address, x, a, b, step, found)
    else:
        spread(lambda cut, _: loop(x[cut], a, b, found[cut.start // max(step, 1)]), x.size, 1)
    return found


@cache
def _row_address(loop: Callable[..., Any], kind: Any, a: type, b: type) -> int:
    return team.address_of(loop, (np.empty(1, kind), a(), b(), np.zeros(2)), None)


def over_rows(loop: Callable[..., Any], codes: Array, exponents: Array, out: Array, given: tuple[Any, ...]) -> None:
    """`loop` (rows of codes, of exponents, of `out`, given) over chunks of rows, of codes of two dimensions."""
    size, count = max(codes.size, out.size), max(len(codes), 1)
    dense = all(a.flags.c_contiguous for a in (codes, exponents, out, *given) if isinstance(a, np.ndarray))
    parallel = native() if dense and parts(size) > 1 else 0  # an address is of one layout
    address = _rows_address(loop, codes, exponents, out, given) if parallel else 0
    if address:
        step = -(-count // (parts(size) * FINER))
        team.rows(parallel, torch.get_num_threads(), address, codes, exponents, out, given, step)
    else:
        spread(lambda _, rows: loop(codes[rows], exponents[rows], out[rows], given), size, max(size // count, 1))


def _rows_address(loop: Callable[..., Any], codes: Array, exponents: Array, out: Array, given: tuple[Any, ...]) -> int:
    known = (loop, codes.dtype, exponents.dtype, out.dtype, out.ndim, *map(type, given))
    if known not in _ADDRESSES:
        _ADDRESSES[known] = team.address_of(loop, (codes, exponents, out, given), None)
    return _ADDRESSES[known]
