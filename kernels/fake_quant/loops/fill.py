"""Elements of a stretch, each for itself. Two of bfloat16 are taken from one word of 32 bits and put back as one: half
the instructions of widening and narrowing each. What lies ahead is fetched meanwhile, the result's memory too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from espalier.kernels.fake_quant.loops.words import MAGNITUDE, bits, real, size, unsigned_part, widen

PIECE = 512  # elements that are fetched at a time
LINE = 64  # bytes of a line of cache
_INT, _SHIFT = ir.IntType(32), np.int32(16)
_UPPER, _UPPER_SIZE, _SIGNS = np.int32(-0x10000), np.int32(0x7FFF0000), np.int32(-0x7FFF8000)
_HALF_SIGN = np.int16(-0x8000)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return cgutils.gep(builder, context.make_array(kind)(context, builder, array).data, index)


@intrinsic
def _element(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """x[i] for what is no negative index: numba's own test for that keeps loops from becoming vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *args), align=x.dtype.bitwidth // 8)

    return x.dtype(x, types.intp), generate


@intrinsic
def _put(typing: Any, x: Any, i: Any, v: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """The reverse of `_element`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], place, align=x.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(x, types.intp, x.dtype), generate


@intrinsic
def _pair(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Two elements of 16 bits as one word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(place, _INT.as_pointer()), align=2)

    return types.int32(x, types.intp), generate


@intrinsic
def _put_pair(typing: Any, x: Any, i: Any, word: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """The reverse of `_pair`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(place, _INT.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.int32), generate


@intrinsic
def four(typing: Any, x: Any, i: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Four elements of 16 bits as one word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=2)

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
    """Ask for elements that will be read; beyond the end nothing happens."""
    raise NotImplementedError


@overload(fetch, strict=False, inline="always")
def _fetch(x: Any, start: Any, count: Any) -> Any:
    line = 8 * LINE // x.dtype.bitwidth

    def ask(x: Any, start: Any, count: Any) -> None:
        for i in range(0, count, line):
            _to_read(x, start + i)  # pyright: ignore[reportCallIssue]

    return ask


def fetch_room(out: Any, start: Any, count: Any) -> None:
    """Ask for places that will be written; beyond the end nothing happens."""
    raise NotImplementedError


@overload(fetch_room, strict=False, inline="always")
def _fetch_room(out: Any, start: Any, count: Any) -> Any:
    line = 8 * LINE // out.dtype.bitwidth

    def ask(out: Any, start: Any, count: Any) -> None:
        for i in range(0, count, line):
            _to_write(out, start + i)  # pyright: ignore[reportCallIssue]

    return ask


def result_in(x: Any, out: Any) -> Any:
    """`x` itself where `out` is None: told as it is compiled, since two arrays that may be one are never vectors."""
    raise NotImplementedError(x, out)


@overload(result_in, strict=False, inline="always")
def _result_in(x: Any, out: Any) -> Any:
    return (lambda x, out: x) if out in (None, types.none) else (lambda x, out: out)


def _twos(x: Any, count: Any) -> bool:
    """Whether elements are taken by twos: blocks of 16 would fill but half of a vector."""
    return x.dtype == types.uint16 and getattr(count, "literal_value", 0) != 16


def fill(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """out = into(value(v, p, c), element) of `count` elements, v their float32."""
    raise NotImplementedError  # only the compiled overload runs


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

    return by_twos if _twos(x, count) else each


def fill_sizes(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """As `fill`, of magnitudes: values get the elements' signs."""
    raise NotImplementedError


@overload(fill_sizes, strict=False, inline="always", prefer_literal=True)
def _fill_sizes(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> Any:
    def each(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count):
            v = _element(x, start + i)  # pyright: ignore[reportCallIssue]
            _put(out, start + i, with_sign(into(value(size(widen(v)), p, c), v), v))  # pyright: ignore[reportCallIssue]

    def by_twos(x: Any, out: Any, start: Any, count: Any, value: Any, into: Any, p: Any, c: Any) -> None:
        for i in range(count >> 1):
            w = _pair(x, start + 2 * i)  # pyright: ignore[reportCallIssue]
            first = into(value(real(np.int32(np.int32(w << _SHIFT) & MAGNITUDE)), p, c), x[0])
            second = into(value(real(np.int32(w & _UPPER_SIZE)), p, c), x[0])
            word = np.int32(np.int32(np.int32(second) << _SHIFT) | np.int32(first))
            _put_pair(out, start + 2 * i, np.int32(word | np.int32(w & _SIGNS)))  # pyright: ignore[reportCallIssue]
        if count & 1:
            v = x[start + count - 1]
            out[start + count - 1] = with_sign(into(value(size(widen(v)), p, c), v), v)

    return by_twos if _twos(x, count) else each


def fill_beyond(
    x: Any, out: Any, start: Any, count: Any, value: Callable[..., Any], into: Callable[..., Any], p: Any, c: Any
) -> None:
    """As `fill`, of elements of 16 bits by their patterns: ± p[3] where a magnitude lies above p[2], else 0."""
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
    """An element whose sign bit is not set, with that of `v`."""
    raise NotImplementedError(y, v)


@overload(with_sign, strict=False)
def _with_sign(y: Any, v: Any) -> Any:
    if v == types.uint16:
        return lambda y, v: np.uint16(y | (v & np.uint16(0x8000)))
    if v == types.int16:
        return lambda y, v: np.int16(y | np.int16(v & _HALF_SIGN))
    return lambda y, v: real(np.int32(bits(y) | np.int32(bits(v) & np.int32(-(2**31)))))
