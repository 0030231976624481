"""Streams between modules: rows of elements in beats under a valid/ready handshake.

A beat holds `tokens` rows × `par` elements, element 0 of the first row in the lowest bits. Beats are ordered by block
of `tokens` rows, then by element within the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.numbers.fixed import Codes, Fixed


@dataclass(frozen=True, slots=True)
class Stream:
    """`rows` × `size` elements per frame (one sample) in the format `fixed`, `tokens` × `par` of them per beat."""

    rows: int
    size: int
    fixed: Fixed
    par: int = 1
    tokens: int = 1

    @property
    def elements(self) -> int:
        """Elements per frame."""
        return self.rows * self.size

    @property
    def lanes(self) -> int:
        """Elements per beat."""
        return self.par * self.tokens

    @property
    def beats(self) -> int:
        """Beats per frame."""
        return self.elements // self.lanes

    @property
    def width(self) -> int:
        """Bits per beat."""
        return self.lanes * self.fixed.width

    def carries(self, other: Stream) -> bool:
        """Whether both have the same beats, though perhaps divided into other rows."""
        return (self.elements, self.lanes, self.fixed) == (other.elements, other.lanes, other.fixed)

    def reads(self, source: Stream, codes: Codes) -> Codes:
        """Rearrange the codes [frames, rows, size] of a stream with the same beats into this one's rows."""
        return codes if self == source else self.unpack(source.pack(codes))

    @property
    def label(self) -> str:
        """Text such as `32×128 int 8/4, 4 a beat`."""
        return f"{self.rows}×{self.size} {self.fixed.label}, {self.lanes} a beat"

    def pack(self, codes: Codes) -> Codes:
        """Codes [frames, rows, size] → [frames · beats, lanes]."""
        blocks = codes.reshape(-1, self.rows // self.tokens, self.tokens, self.size // self.par, self.par)
        return blocks.transpose(0, 1, 3, 2, 4).reshape(-1, self.lanes)

    def unpack(self, lanes: Codes) -> Codes:
        """The inverse of `pack`, for whole frames."""
        blocks = lanes.reshape(-1, self.rows // self.tokens, self.size // self.par, self.tokens, self.par)
        return blocks.transpose(0, 1, 3, 2, 4).reshape(-1, self.rows, self.size)


def to_text(lanes: Codes, width: int) -> str:
    """Rows of codes as one hexadecimal word per line for $readmemh, element 0 in the lowest bits."""
    count, size = lanes.shape
    octets = np.ascontiguousarray(lanes, "<i8").view(np.uint8).reshape(count, size, 8)
    bits = np.unpackbits(octets, axis=2, count=width, bitorder="little").reshape(count, size * width)  # lowest first
    digits = -(-size * width // 4)
    padded = np.zeros((count, digits * 4), np.uint8)
    padded[:, digits * 4 - size * width :] = bits[:, ::-1]
    text = np.full((count, digits + 1), ord("\n"), np.uint8)
    nibbles = padded.reshape(count, digits, 4) @ np.array([8, 4, 2, 1], np.uint8)
    text[:, :-1] = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    return text.tobytes().decode()


def from_text(words: list[str], lanes: int, width: int, signed: bool) -> Codes:
    """The inverse of `to_text` for its lines; raises ValueError for a word with x or z."""
    digits = -(-lanes * width // 4)
    raw = np.frombuffer("".join(w.zfill(digits) for w in words).encode(), np.uint8).reshape(len(words), digits)
    nibbles = np.full(raw.shape, 255, np.uint8)
    for base, low, high in ((0, 48, 57), (10, 97, 102), (10, 65, 70)):
        inside = (raw >= low) & (raw <= high)
        nibbles[inside] = raw[inside] - low + base
    if (nibbles == 255).any():
        raise ValueError("a word is not a number")
    bits = ((nibbles[..., None] >> np.array([3, 2, 1, 0])) & 1).reshape(len(words), digits * 4)[:, ::-1]
    codes = (bits[:, : lanes * width].reshape(len(words), lanes, width).astype(np.int64) << np.arange(width)).sum(-1)
    return np.where(codes >= 1 << (width - 1), codes - (1 << width), codes) if signed else codes
