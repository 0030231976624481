"""Floats as words: bit patterns, and elements of 16 bits widened to float32 and rounded back.

Arrays of float32 stand for themselves, of uint16 for bfloat16, of int16 for float16: the type chooses the conversion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload, register_jitable

MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITY = np.int32(0x7F800000)
SIGN = np.int32(-(2**31))
_HALF_MAGNITUDE, _HALF_INFINITY = np.int16(0x7FFF), np.int16(0x7C00)
REDO = np.int32(-1)  # result of a loop if only the definition can compute
LARGEST = np.finfo(np.float32).max
_LARGEST_BFLOAT, _LARGEST_HALF = np.float32((2 - 2.0**-7) * 2.0**127), np.float32(65504.0)


@register_jitable
def bits(v: Any) -> Any:
    """The int32 pattern of a float32."""
    return np.float32(v).view(np.int32)


@register_jitable
def real(b: Any) -> Any:
    """The float32 of an int32 pattern."""
    return np.int32(b).view(np.float32)


@register_jitable
def magnitude(v: Any) -> Any:
    """The pattern of |v|; NaN exceeds infinity."""
    return np.int32(bits(v) & MAGNITUDE)


@register_jitable
def absolute(v: Any) -> Any:
    """|v|."""
    return real(bits(v) & MAGNITUDE)


@register_jitable
def signed(pattern: Any, v: Any) -> Any:
    """The magnitude of a pattern with the sign of v."""
    return real(pattern | (bits(v) & SIGN))


@intrinsic
def from_half(typing: Any, v: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """The float32 of a float16 pattern."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.int16), generate


@intrinsic
def to_half(typing: Any, v: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """The float16 pattern nearest to a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.int16(types.float32), generate


@intrinsic
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """a·b + c of float32, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), generate


def widen(v: Any) -> Any:
    """float32 value of an element."""
    raise NotImplementedError(v)  # only the compiled overload runs


@overload(widen, strict=False)  # strict would compare annotations too
def _widen(v: Any) -> Any:
    if v == types.uint16:
        return lambda v: real(np.int32(v) << np.int32(16))
    if v == types.int16:
        return lambda v: from_half(v)  # pyright: ignore[reportCallIssue]
    return lambda v: v


def word(v: Any) -> Any:
    """The pattern of an element in its own width, as a signed integer; without the sign bit it orders magnitudes."""
    raise NotImplementedError(v)


@overload(word, strict=False)
def _word(v: Any) -> Any:
    if v in (types.uint16, types.int16):
        return lambda v: np.int16(v)
    return lambda v: bits(v)


@register_jitable
def pattern(v: Any) -> Any:
    """The magnitude's pattern in the element's own width; NaN exceeds infinity."""
    return unsigned_part(word(v))


def unsigned_part(k: Any) -> Any:
    """A word without its sign bit."""
    raise NotImplementedError(k)


@overload(unsigned_part, strict=False)
def _unsigned_part(k: Any) -> Any:
    if k == types.int16:
        return lambda k: np.int16(k & _HALF_MAGNITUDE)
    return lambda k: np.int32(k & MAGNITUDE)


def unsigned(k: Any) -> Any:
    """A word as an unsigned integer: negative numbers are above all others, ordered by magnitude."""
    raise NotImplementedError(k)


@overload(unsigned, strict=False)
def _unsigned(k: Any) -> Any:
    if k == types.int16:
        return lambda k: np.uint16(k)
    return lambda k: np.uint32(k)


def value_of(k: Any, like: Any) -> Any:
    """The float32 of a word of an element like `like`."""
    raise NotImplementedError(k, like)


@overload(value_of, strict=False)
def _value_of(k: Any, like: Any) -> Any:
    if like == types.uint16:
        return lambda k, like: real(np.int32(np.int32(k) << np.int32(16)))
    if like == types.int16:
        return lambda k, like: from_half(np.int16(k))  # pyright: ignore[reportCallIssue]
    return lambda k, like: real(k)


def narrow(y: Any, like: Any) -> Any:
    """`y` (float32 or float64) rounded to the element type of `like`; finite values stay finite."""
    raise NotImplementedError(y, like)


@overload(narrow, strict=False)
def _narrow(y: Any, like: Any) -> Any:
    if like != types.uint16:
        return lambda y, like: narrow_exact(y, like)

    def to_bfloat(y: Any, like: Any) -> Any:
        v = np.float32(y)
        v = -_LARGEST_BFLOAT if v < -_LARGEST_BFLOAT else v
        u = bits(_LARGEST_BFLOAT if v > _LARGEST_BFLOAT else v)
        return np.uint16((u + np.int32(0x7FFF) + ((u >> np.int32(16)) & np.int32(1))) >> np.int32(16))

    return to_bfloat


def narrow_in_range(y: Any, like: Any) -> Any:
    """As `narrow`, for values that `stays_finite` accepts, or NaN."""
    raise NotImplementedError(y, like)


@overload(narrow_in_range, strict=False)
def _nearest(y: Any, like: Any) -> Any:
    if like == types.int16:
        return lambda y, like: to_half(np.float32(y))  # pyright: ignore[reportCallIssue]
    if like != types.uint16:
        return lambda y, like: np.float32(y)

    def to_bfloat(y: Any, like: Any) -> Any:
        u = bits(y)
        return np.uint16(np.uint32(u + np.int32(0x7FFF) + ((u >> np.int32(16)) & np.int32(1))) >> np.uint32(16))

    return to_bfloat


def stays_finite(y: Any, like: Any) -> Any:
    """Whether a magnitude stays finite as an element like `like`."""
    raise NotImplementedError(y, like)


@overload(stays_finite, strict=False)
def _stays_finite(y: Any, like: Any) -> Any:
    most = {types.int16: _LARGEST_HALF, types.uint16: _LARGEST_BFLOAT}.get(like, LARGEST)
    return lambda y, like: y <= most


def narrow_exact(y: Any, like: Any) -> Any:
    """As `narrow`, for values that are exact in bfloat16."""
    raise NotImplementedError(y, like)


@overload(narrow_exact, strict=False)
def _cut(y: Any, like: Any) -> Any:
    if like == types.uint16:
        return lambda y, like: np.uint16(np.uint32(bits(y)) >> np.uint32(16))
    if like != types.int16:
        return lambda y, like: np.float32(y)

    def narrowed(y: Any, like: Any) -> Any:
        # Clipped afterwards, by pattern: LLVM compiles an earlier maximum to two comparisons and blends of narrow
        # lanes.
        k = to_half(np.float32(y))  # pyright: ignore[reportCallIssue]
        return np.int16(k - np.int16(np.int16(k & _HALF_MAGNITUDE) == _HALF_INFINITY))

    return narrowed


def narrow_exact_magnitude(y: Any, like: Any) -> Any:
    """As `narrow_exact`, for a magnitude."""
    raise NotImplementedError(y, like)


@overload(narrow_exact_magnitude, strict=False)
def _cut_size(y: Any, like: Any) -> Any:
    if like != types.int16:
        return lambda y, like: narrow_exact(y, like)

    def narrowed(y: Any, like: Any) -> Any:
        k = to_half(np.float32(y))  # pyright: ignore[reportCallIssue]
        return np.int16(k - np.int16(k == _HALF_INFINITY))

    return narrowed
