"""Decodes an MXINT8 code step by step: the assembled bfloat16 and its correction.

Integer arithmetic only, so that the window can decode at each keystroke. The version `bits` of mxint8_dequantize does
the same.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from espalier.kernels.bench.spec import KernelError

CODES, EXPONENTS, BIAS, FRACTION = (-128, 127), (0, 255), 127, 6
NAN_FIELD = 255


@dataclass(frozen=True, slots=True)
class Dequantisation:
    """A code m and a stored exponent s, decoded by the bit trick and by the definition.

    `size`: |m|. `built`, `bias`: bits of bfloat16s: sign, exponent and six bits of fraction; the same without fraction.
    `result`: the trick's value in bfloat16; `defined`: m/64·2^(s − 127).
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
        """Whether bit 6 of |m| is set, so that the implicit one of the float is correct."""
        return self.integer_bit

    @property
    def agrees(self) -> bool:
        """Whether the trick agrees with the definition; NaN equals NaN."""
        return self.result == self.defined or (math.isnan(self.result) and math.isnan(self.defined))

    @property
    def why_not(self) -> str:
        """The reason for a disagreement; empty if they agree."""
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


def dequantise(code: int, stored: int) -> Dequantisation:
    """Decode a code and a stored exponent; raises KernelError if one is out of range."""
    if not CODES[0] <= code <= CODES[1]:
        raise KernelError(f"A mantissa cannot be {code}.", "Give a whole number from −128 to 127.")
    if not EXPONENTS[0] <= stored <= EXPONENTS[1]:
        raise KernelError(f"A stored exponent cannot be {stored}.", "Give a whole number from 0 to 255.")
    size, head = abs(code), (int(code < 0) << 15) | (stored << 7)
    fraction, integer_bit = size & 63, bool(size & 64)
    built = head | (fraction << 1)
    result = bfloat16(built) if integer_bit else rounded(bfloat16(built) - bfloat16(head))
    return Dequantisation(
        code, stored, size, code < 0, integer_bit, fraction, built, head, result, defined(code, stored)
    )


def defined(code: int, stored: int) -> float:
    """m/64·2^(s − 127) in bfloat16, exact except for −128 at the largest exponent; s = 255 is NaN."""
    return math.nan if stored == NAN_FIELD else rounded(math.ldexp(code, stored - BIAS - FRACTION))


def bfloat16(bits: int) -> float:
    """The value of 16 bits."""
    return struct.unpack(">f", struct.pack(">I", bits << 16))[0]


def rounded(value: float) -> float:
    """The nearest bfloat16, ties to even; infinity beyond the largest."""
    if not math.isfinite(value) or value == 0:
        return value
    _, exponent = math.frexp(value)
    step = max(exponent - 8, -133)
    nearest = math.ldexp(round(math.ldexp(value, -step)), step)
    return nearest if abs(nearest) < 2.0**128 else math.copysign(math.inf, value)


def bits_of(value: float) -> int:
    """The bit pattern of a value that is a bfloat16."""
    return struct.unpack(">I", struct.pack(">f", value))[0] >> 16


def encoded(value: float, stored: int | None = None) -> tuple[int, int]:
    """(code of a value, clipped to ±127, and its exponent). The default exponent is the largest power of two in the
    value, as in a block with this largest element. Raises KernelError for values that are not finite.
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
    """A step of the decoding: its description, the resulting bits by field, and their value."""

    name: str
    text: str
    bits: str
    value: float | None = None


def steps(decoded: Dequantisation) -> tuple[BitStep, ...]:
    """The steps from the two bytes to the float."""
    sign = "−" if decoded.negative else "+"
    parts = [
        BitStep("stored", f"mantissa m = {_minus(decoded.code)}, exponent s = {decoded.stored}",
                f"{decoded.byte:08b}  {decoded.stored:08b}"),
        BitStep("sign and size", f"sign {sign}, |m| = {decoded.size}", _spaced(decoded.size & 127, (1, 6))),
        BitStep("bfloat16 built", "sign, s, and the six bits of fraction one place up", spaced16(decoded.built),
                bfloat16(decoded.built)),
        BitStep("dont_need_abs", "bit 6 of |m| is " + ("set: the implied one is real" if decoded.integer_bit else
                "not set: the implied one is too much"), str(int(decoded.integer_bit))),
        BitStep("bias", "the same sign and exponent, no fraction", spaced16(decoded.bias), bfloat16(decoded.bias)),
        BitStep("result", "as built" if decoded.integer_bit else "built − bias", "", decoded.result),
        BitStep("definition", f"{_minus(decoded.code)}/64·2^({decoded.stored} − 127)", "", decoded.defined),
    ]  # fmt: skip
    return tuple(parts)


def spaced16(bits: int) -> str:
    """Sign, exponent and fraction of a bfloat16."""
    return _spaced(bits, (1, 8, 7))


def _spaced(bits: int, sizes: tuple[int, ...]) -> str:
    text, fields = f"{bits:0{sum(sizes)}b}", list[str]()
    for size in sizes:
        fields.append(text[:size])
        text = text[size:]
    return " ".join(fields)


def _minus(value: int) -> str:
    return str(value).replace("-", "−")
