"""Codes and scales of a format as the bytes of ggml's blocks; nothing is rounded here.

Layouts: ggml-common.h and ggml-quants.c of https://github.com/ggml-org/ggml.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from espalier.model.errors import ExportError
from espalier.model.formats.base import Array, Encoded, Format
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.scaled import TENSOR, ScaledFormat, broadcast_scale
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.passes.export.targets.gguf import BLOCK
from espalier.passes.export.whole_numbers import whole_numbers


def blocks_of(fmt: Format, seen: Array, scale: Array | None, kind: str) -> Array:
    """Bytes [rows, bytes of a row] of a masked float32 weight [rows, columns] in the type `kind`.

    Raises ExportError for a scale that is no float16.
    """
    encoded = cast("ScaledFormat", fmt).encode_with(seen, scale) if scale is not None else fmt.encode(seen)
    rows = len(seen)
    if kind == "MXFP4":
        scales = encoded.shared[0].values.astype(np.uint8).reshape(rows, -1, 1)
        parts = [scales, _nibbles(encoded.codes.reshape(rows, -1, BLOCK))]
    else:
        codes, half = _codes(fmt, encoded)
        parts = [half[..., None].view(np.uint8), *_PARTS[kind](codes.reshape(rows, -1, BLOCK))]
    return np.ascontiguousarray(np.concatenate(parts, -1).reshape(rows, -1))


def _codes(fmt: Format, encoded: Encoded) -> tuple[Array, Array]:
    """(signed codes, float16 scale of each block of 32)."""
    codes, unit, zero = whole_numbers(fmt, encoded)
    codes = codes if zero is None else codes - zero
    spread = np.broadcast_to(broadcast_scale(unit, _per(fmt), codes.shape), codes.shape)[:, ::BLOCK]
    with np.errstate(over="ignore"):
        half = spread.astype(np.float16)
    wrong = half.astype(np.float32) != spread
    # The scale of a block of zeros counts for nothing.
    wrong &= codes.reshape(*spread.shape, BLOCK).any(-1)
    if wrong.any():
        value = float(spread[wrong][0])
        raise ExportError(f"a scale of {fmt.label} is {value:.6g}, which is no float16.",
                          "Choose scaled_integer with scale_dtype=float16, or leave it in float.")  # fmt: skip
    return codes, np.ascontiguousarray(np.where(wrong | ~np.isfinite(half), np.float16(0), half))


def _per(fmt: Format) -> int:
    match fmt:
        case ScaledInteger():
            return fmt.per
        case PowerBlocks():
            return fmt.blocks.block
        case _:
            return TENSOR


def _nibbles(codes: Array) -> Array:
    """Two codes of 4 bits a byte: the first half of a block in the low bits, the second in the high ones."""
    low, high = np.split(codes.astype(np.uint8) & 15, 2, -1)
    return low | high << 4


def _q4(codes: Array) -> list[Array]:
    return [_nibbles(codes + 8)]


def _q5(codes: Array) -> list[Array]:
    """The fifth bits of a block in four bytes, then the lower four."""
    shifted = (codes + 16).astype(np.uint8)
    return [np.packbits(shifted >> 4, axis=-1, bitorder="little"), _nibbles(shifted)]


def _q8(codes: Array) -> list[Array]:
    return [codes.astype(np.int8).view(np.uint8)]


_PARTS = {"Q4_0": _q4, "Q5_0": _q5, "Q8_0": _q8}
