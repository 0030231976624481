"""Elementwise evaluation of a segment. Pairs of bfloat16 are read and written as one 32-bit word, which halves
the instructions for widening and narrowing. Input and result memory ahead are prefetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from espalier.kernels.fake_quant.loops.words import MAGNITUDE, absolute, bits, real, unsigned_part, widen

PIECE = 512  # elements prefetched at a time
LINE = 64  # bytes of a cache line
_INT, _SHIFT = ir.IntType(32), np.int32(16)
_UPPER, _UPPER_SIZE, _SIGNS = np.int32(-0x10000), np.int32(0x7FFF0000), np.int32(-0x7FFF8000)
_HALF_SIGN = np.int16(-0x8000)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return cgutils.gep(builder, context.make_array(kind)(context, builder, array).data, index)


@intrinsic
def _element(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """x[i] for i ≥ 0: numba's test for negative indices prevents vectorisation."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *args), align=x.dtype.bitwidth // 8)

    return x.dtype(x, types.intp), generate


@intrinsic
def _put(typing: Any, x: Any, i: Any, v: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """x[i] = v for i ≥ 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], address, align=x.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(x, types.intp, x.dtype), generate


@intrinsic
def _pair(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Read two 16-bit elements as one word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _place(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(address, _INT.as_pointer()), align=2)

    return types.int32(x, types.intp), generate


@intrinsic
def _put_pair(typing: Any, x: Any, i: Any, word: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Write two 16-bit elements as one word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(address, _INT.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.int32), generate


@intrinsic
def four(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Read four 16-bit elements as one word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _place(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=2)

    return types.int64(x, types.intp), generate


def _fetching(write: int) -> Any:
    @intrinsic
    def fetch_line(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
            prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            place = builder.bitcast(_place(context, builder, signature.args[0], *args), byte)
            builder.call(prefetch, [place, _INT(write), _INT(3), _INT(1)])
            return context.get_dummy_value()

        return types.void(x, types.intp), generate

    return fetch_line


_to_read, _to_write = _fetching(0), _fetching(1)


def fetch(x: Any, start: Any, count: Any) -> None:
    """Prefetch elements for reading; no effect beyond the end."""
    raise NotImplementedError


@overload(fetch, strict=False, inline="always")
def _fetch(x: Any, start: Any, count: Any) -> Any:
    line = 8 * LINE // x.dtype.bitwidth

    def ask(x: Any, start: Any, count: Any) -> None:
        for i in range(0, count, line):
            _to_read(x, start + i)  # pyright: ignore[reportCallIssue]

    return ask


def fetch_for_write(out: Any, start: Any, count: Any) -> None:
    """Prefetch elements for writing; no effect beyond the end."""
    raise NotImplementedError


@overload(fetch_for_write, strict=False, inline="always")
def _fetch_room(out: Any, start: Any, count: Any) -> Any:
    line = 8 * LINE // out.dtype.bitwidth

    def ask(out: Any, start: Any, count: Any) -> None:
        for i in range(0, count, line):
            _to_write(out, start + i)  # pyright: ignore[reportCallIssue]

    return ask


def result_in(x: Any, out: Any) -> Any:
    """`x` itself if `out` is None. Decided at compile time, since arrays that may alias are not vectorised."""
    raise NotImplementedError(x, out)


@overload(result_in, strict=False, inline="always")
def _result_in(x: Any, out: Any) -> Any:
    return (lambda x, out: x) if out in (None, types.none) else (lambda x, out: out)


def _by_pairs(x: Any, count: Any) -> bool:
    """Whether elements are processed in pairs; blocks of 16 would fill only half a vector."""
    return x.dtype == types.uint16 and getattr(count, "literal_value", 0) != 16


def fill(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """out = into(value(v, p, c), element) for `count` elements, v their float32 values."""
    raise NotImplementedError  # replaced by the compiled overload


@overload(fill, strict=False, inline="always", prefer_literal=True)
def _fill(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> Any:
    def each(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count):
            v = _element(x, start + i)  # pyright: ignore[reportCallIssue]
            _put(out, start + i, into(value(widen(v), p, c), v))  # pyright: ignore[reportCallIssue]

    def by_twos(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count >> 1):
            w = _pair(x, start + 2 * i)  # pyright: ignore[reportCallIssue]
            first = into(value(real(np.int32(w << _SHIFT)), p, c), x[0])
            second = into(value(real(np.int32(w & _UPPER)), p, c), x[0])
            word = np.int32(np.int32(np.int32(second) << _SHIFT) | np.int32(first))
            _put_pair(out, start + 2 * i, word)  # pyright: ignore[reportCallIssue]
        if count & 1:
            out[start + count - 1] = into(value(widen(x[start + count - 1]), p, c), x[0])

    return by_twos if _by_pairs(x, count) else each


def fill_sizes(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """As `fill`, for magnitudes: values get the elements' signs."""
    raise NotImplementedError


@overload(fill_sizes, strict=False, inline="always", prefer_literal=True)
def _fill_sizes(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> Any:
    def each(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count):
            v = _element(x, start + i)  # pyright: ignore[reportCallIssue]
            _put(out, start + i, with_sign(into(value(absolute(widen(v)), p, c), v), v))  # pyright: ignore[reportCallIssue]

    def by_twos(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count >> 1):
            w = _pair(x, start + 2 * i)  # pyright: ignore[reportCallIssue]
            first = into(value(real(np.int32(np.int32(w << _SHIFT) & MAGNITUDE)), p, c), x[0])
            second = into(value(real(np.int32(w & _UPPER_SIZE)), p, c), x[0])
            word = np.int32(np.int32(np.int32(second) << _SHIFT) | np.int32(first))
            _put_pair(out, start + 2 * i, np.int32(word | np.int32(w & _SIGNS)))  # pyright: ignore[reportCallIssue]
        if count & 1:
            v = x[start + count - 1]
            out[start + count - 1] = with_sign(into(value(absolute(widen(v)), p, c), v), v)

    return by_twos if _by_pairs(x, count) else each


def fill_beyond(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """As `fill`, for 16-bit elements by their patterns: ±p[3] where a magnitude exceeds p[2], else 0."""
    raise NotImplementedError


@overload(fill_beyond, strict=False, inline="always", prefer_literal=True)
def _fill_beyond(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> Any:
    if x.dtype == types.float32:
        return lambda x, out, start, count, value, into, p, c: fill(x, out, start, count, value, into, p, c)

    kind = np.uint16 if x.dtype == types.uint16 else np.int16

    def patterns(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count):
            k = np.int16(_element(x, start + i))  # pyright: ignore[reportCallIssue]
            y = np.int16(p[3] ^ np.int16(k & _HALF_SIGN))  # a given scale may be negative
            _put(out, start + i, kind(y if unsigned_part(k) > p[2] else np.int16(0)))  # pyright: ignore[reportCallIssue]

    return patterns


def with_sign(y: Any, v: Any) -> Any:
    """A non-negative element with the sign bit of `v`."""
    raise NotImplementedError(y, v)


@overload(with_sign, strict=False)
def _with_sign(y: Any, v: Any) -> Any:
    if v == types.uint16:
        return lambda y, v: np.uint16(y | (v & np.uint16(0x8000)))
    if v == types.int16:
        return lambda y, v: np.int16(y | np.int16(v & _HALF_SIGN))
    return lambda y, v: real(np.int32(bits(y) | np.int32(bits(v) & np.int32(-(2**31)))))
