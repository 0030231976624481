"""Packing of codes of 1 to 32 bits without gaps, and concatenation and slicing of bit strings, with numpy only.

Bits are ordered from the least significant. Codes of more than 8 bits are split into bytes: first the lowest byte of
all codes, then the next; the remaining top bits, fewer than 8 per code, are packed last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

_LANE8, _LANE16, _LANE32 = (np.uint64(m) for m in (0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF))


def pack_bits(codes: Array, bits: int) -> Bytes:
    """Pack the lowest `bits` bits (1…32) of the integers `codes` (any shape, C order) into ceil(count·bits/8) bytes."""
    flat = np.ascontiguousarray(codes).reshape(-1)
    parts = [flat.astype(np.uint8) if not low else (flat >> low).astype(np.uint8) for low in range(0, bits, 8)]
    if bits % 8:
        parts[-1] = _pack_bytes(parts[-1], bits % 8)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def unpack_bits(data: Bytes, bits: int, count: int, signed: bool = False) -> Array:
    """The inverse of `pack_bits` for `count` codes, as the smallest signed integers; `signed`: two's complement."""
    room = next(room for room in (8, 16, 32, 64) if bits + (not signed) <= room)
    kind = np.dtype(f"i{room // 8}")
    codes = np.zeros(0, kind)
    for low in range(0, bits, 8):
        start, left = count * (low // 8), min(8, bits - low)
        part = data[start : start + count] if left == 8 else _unpack_bytes(data[start:], left, count)
        codes = part.astype(kind) if not low else codes | (part.astype(kind) << low)
    return (codes << (room - bits)) >> (room - bits) if signed and bits < room else codes


def _pack_bytes(codes: Bytes, bits: int) -> Bytes:
    """Pack each 8 codes of a byte into `bits` bytes: lanes of 8, then 16, then 32 bits are merged."""
    x = np.zeros(-(-codes.size // 8) * 8, np.uint8)
    x[: codes.size] = codes & ((1 << bits) - 1)
    lanes = x.view("<u8").astype(np.uint64, copy=False)
    lanes = (lanes & _LANE8) | ((lanes & ~_LANE8) >> np.uint64(8 - bits))
    lanes = (lanes & _LANE16) | ((lanes & ~_LANE16) >> np.uint64(16 - 2 * bits))
    lanes = (lanes & _LANE32) | ((lanes & ~_LANE32) >> np.uint64(32 - 4 * bits))
    packed = lanes.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, :bits]
    return packed.reshape(-1)[: -(-codes.size * bits // 8)]


def _unpack_bytes(data: Bytes, bits: int, count: int) -> Bytes:
    """The inverse of `_pack_bytes`."""
    groups = -(-count // 8)
    full = np.zeros((groups, 8), np.uint8)
    padded = np.zeros(groups * bits, np.uint8)
    available = data[: padded.size]
    padded[: available.size] = available
    full[:, :bits] = padded.reshape(groups, bits)
    lanes = full.reshape(-1).view("<u8").astype(np.uint64, copy=False)
    for room in (32, 16, 8):
        width = bits * room // 8
        low = np.uint64(sum((1 << width) - 1 << at for at in range(0, 64, 2 * room)))
        lanes = (lanes & low) | ((lanes & (low << np.uint64(width))) << np.uint64(room - width))
    return lanes.astype("<u8", copy=False).view(np.uint8)[:count]


def join_bits(parts: Sequence[tuple[Bytes, int]]) -> Bytes:
    """Concatenate bit strings (bytes, number of bits) without gaps."""
    if all(bits % 8 == 0 for _, bits in parts[:-1]):
        return np.concatenate([data for data, _ in parts])
    first, used = parts[0]
    whole = used // 8
    tails = [np.unpackbits(first[whole:], count=used - 8 * whole, bitorder="little"),
             *(np.unpackbits(data, count=bits, bitorder="little") for data, bits in parts[1:])]  # fmt: skip
    return np.concatenate([first[:whole], np.packbits(np.concatenate(tails), bitorder="little")])


def cut_bits(data: Bytes, start: int, bits: int) -> Bytes:
    """The `bits` bits from bit `start`."""
    piece, skip = data[start // 8 : -(-(start + bits) // 8)], start % 8
    if not skip:
        return piece
    return np.packbits(np.unpackbits(piece, bitorder="little")[skip : skip + bits], bitorder="little")
