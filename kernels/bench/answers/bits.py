"""Decodes an MXINT8 code step by step: the assembled bfloat16 and its correction.

Whole numbers alone, so that a window can do it at each keystroke. The kernel `bits` of mxint8_dequantize does the same.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from espalier.kernels.bench.spec import KernelError

CODES, EXPONENTS, BIAS, FRACTION = (-128, 127), (0, 255), 127, 6
NAN_FIELD = 255


@dataclass(frozen=True, slots=True)
class Dequantised:
    """A code m and a stored exponent s, and what the bit trick makes of them.

    `size`: |m|. `built`, `bias`: bits of bfloat16s: sign, exponent and six bits of fraction; the same without fraction.
    `result`: what the trick gives, in bfloat16; `defined`: m/64·2^(s − 127).
    """

    code: int
    stored: int
    size: int
    negative: bool
    integer_bit: bool
    fraction: int
    built: int
    bias: int
    result: float
    defined: float

    @property
    def byte(self) -> int:
        """The code as stored: two's complement."""
        return self.code & 255

    @property
    def dont_need_abs(self) -> bool:
        """Whether bit 6 of the size is set: then the one that a float implies is real."""
        return self.integer_bit

    @property
    def agrees(self) -> bool:
        """Whether the trick gives what the definition says; NaN equals NaN."""
        return self.result == self.defined or (math.isnan(self.result) and math.isnan(self.defined))

    @property
    def why_not(self) -> str:
        """Why it does not, in words; empty where it does."""
        if self.agrees:
            return ""
        if self.stored == NAN_FIELD:
            return "The exponent 255 stands for NaN; infinity less itself is one too, but a bfloat16 alone may be not."
        if self.code == CODES[0]:
            return ("The size 128 needs bit 7, which the trick does not look at. MXINT8 leaves −128 unused: the "
                    "largest codes are ±127.")  # fmt: skip
        return (
            "An exponent of 0 makes a bfloat16 denormal: no one is implied, and 2^−126 counts instead of 2^−127. "
            "The trick is for exponents above 0; the kernel that multiplies by a power of two has no such case."
        )


def dequantised(code: int, stored: int) -> Dequantised:
    """Take a code and an exponent through the trick; raises KernelError where they are no bytes."""
    if not CODES[0] <= code <= CODES[1]:
        raise KernelError(f"A mantissa cannot be {code}.", "Give a whole number from −128 to 127.")
    if not EXPONENTS[0] <= stored <= EXPONENTS[1]:
        raise KernelError(f"A stored exponent cannot be {stored}.", "Give a whole number from 0 to 255.")
    size, head = abs(code), (int(code < 0) << 15) | (stored << 7)
    fraction, integer_bit = size & 63, bool(size & 64)
    built = head | (fraction << 1)
    result = bfloat16(built) if integer_bit else rounded(bfloat16(built) - bfloat16(head))
    return Dequantised(code, stored, size, code < 0, integer_bit, fraction, built, head, result, defined(code, stored))


def defined(code: int, stored: int) -> float:
    """m/64·2^(s − 127), in bfloat16, which holds it but for −128 at the largest exponent; 255 is NaN."""
    return math.nan if stored == NAN_FIELD else rounded(math.ldexp(code, stored - BIAS - FRACTION))


def bfloat16(bits: int) -> float:
    """The value of 16 bits."""
    return struct.unpack(">f", struct.pack(">I", bits << 16))[0]


def rounded(value: float) -> float:
    """The nearest bfloat16, ties to even; beyond the largest infinity."""
    if not math.isfinite(value) or value == 0:
        return value
    _, exponent = math.frexp(value)
    step = max(exponent - 8, -133)
    found = math.ldexp(round(math.ldexp(value, -step)), step)
    return found if abs(found) < 2.0**128 else math.copysign(math.inf, value)


def bits_of(value: float) -> int:
    """The bits of a value that a bfloat16 holds."""
    return struct.unpack(">I", struct.pack(">f", value))[0] >> 16


def encoded(value: float, stored: int | None = None) -> tuple[int, int]:
    """The code of a value under an exponent, clipped to ±127, and that exponent: unasked the largest power of two in
    it, as in a block whose largest element it is. Raises KernelError for what is no number.
    """
    if not math.isfinite(value):
        raise KernelError(f"MXINT8 has no code for {value}.", "Give a number.")
    if stored is None:
        power = math.frexp(value)[1] - 1 if value else 0
        stored = min(max(power, -BIAS), BIAS) + BIAS
    if not EXPONENTS[0] <= stored < NAN_FIELD:
        raise KernelError(f"A block cannot have the stored exponent {stored}.", "Give 0 to 254; 255 stands for NaN.")
    scaled = math.ldexp(value, BIAS + FRACTION - stored) if abs(value) < 2.0**129 else math.copysign(1e9, value)
    return int(min(max(round(scaled), -127), 127)), stored


@dataclass(frozen=True, slots=True)
class BitStep:
    """A step: what is done, in words; the bits it gives, fields apart, and their value."""

    name: str
    text: str
    bits: str
    value: float | None = None


def steps(found: Dequantised) -> tuple[BitStep, ...]:
    """From the two bytes to the float."""
    sign = "−" if found.negative else "+"
    parts = [
        BitStep("stored", f"mantissa m = {_minus(found.code)}, exponent s = {found.stored}",
                f"{found.byte:08b}  {found.stored:08b}"),
        BitStep("sign and size", f"sign {sign}, |m| = {found.size}", _spaced(found.size & 127, (1, 6))),
        BitStep("bfloat16 built", "sign, s, and the six bits of fraction one place up", spaced16(found.built),
                bfloat16(found.built)),
        BitStep("dont_need_abs", "bit 6 of |m| is " + ("set: the implied one is real" if found.integer_bit else
                "not set: the implied one is too much"), str(int(found.integer_bit))),
        BitStep("bias", "the same sign and exponent, no fraction", spaced16(found.bias), bfloat16(found.bias)),
        BitStep("result", "as built" if found.integer_bit else "built − bias", "", found.result),
        BitStep("definition", f"{_minus(found.code)}/64·2^({found.stored} − 127)", "", found.defined),
    ]  # fmt: skip
    return tuple(parts)


def spaced16(bits: int) -> str:
    """Sign, exponent and fraction of a bfloat16."""
    return _spaced(bits, (1, 8, 7))


def _spaced(bits: int, sizes: tuple[int, ...]) -> str:
    text, found = f"{bits:0{sum(sizes)}b}", list[str]()
    for size in sizes:
        found.append(text[:size])
        text = text[size:]
    return " ".join(found)


def _minus(value: int) -> str:
    return str(value).replace("-", "−")
