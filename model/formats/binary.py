"""One bit an element: its sign, or whether it is above zero; by rule or at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, Format, unsaid
from espalier.model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64
_UINT = 2**64


@FORMATS.register("binary")
@dataclass(frozen=True, slots=True)
class Binary(Format):
    """sign(x) with sign(0) = +1; or [x > 0] where bipolar is false.

    stochastic: the upper value where u < p, with p = clip((x+1)/2, 0, 1) in float32 and u of element number i (C order,
    from 0) = (z >> 40)·2^−24, where, modulo 2^64, z = seed + (i+1)·0x9E3779B97F4A7C15,
    z = (z ^ z>>30)·0xBF58476D1CE4E5B9, z = (z ^ z>>27)·0x94D049BB133111EB, z = z ^ z>>31 (SplitMix64). The seed is one
    int64 draw from torch's default generator a call (`draw_seed`), so that equal torch seeds give equal results.
    `encode` takes the rule without chance.

    The gradient is 1 where |x| ≤ 1, 0 elsewhere. Source: Courbariaux et al. 2016, https://arxiv.org/abs/1602.02830,
    section 1; SplitMix64: Steele et al. 2014, https://doi.org/10.1145/2660193.2660195.
    """

    name: ClassVar[str] = "binary"
    title: ClassVar[str] = "Binary"
    aliases: ClassVar[tuple[str, ...]] = ("sign", "zero_one", "LinearBinary")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"zero_one": {"bipolar": False}}
    formula: ClassVar[str] = "sign(x), sign(0) = +1; or [x > 0]; stochastic: P(+1) = clip((x+1)/2, 0, 1)"
    source: ClassVar[str] = "Courbariaux et al. 2016, arXiv:1602.02830"
    keeps_zero: ClassVar[bool] = False

    bipolar: bool = field(default=True, metadata={"help": "yes: −1 and +1; no: 0 and 1"})
    stochastic: bool = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=False, metadata={"help": "stochastic rounding"}
    )

    def __post_init__(self) -> None:
        for name in ("bipolar", "stochastic"):
            if not isinstance(getattr(self, name), bool):
                raise FormatError(f"binary: {name} is {getattr(self, name)!r}.", f"{name} must be true or false.")

    @classmethod
    def spelled(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """`zero_one=true` is bipolar=false; the labs' `binary_training=true` and `width=1` say what always holds."""
        known = unsaid(trained(cls.name, values), width=1)
        if isinstance(known.get("zero_one"), bool):
            return {"bipolar": not known.pop("zero_one"), **known}
        return known

    def layout(self) -> tuple[BitField, ...]:
        """One bit."""
        return (BitField("sign", "sign", 1) if self.bipolar else BitField("integer", "integer", 1),)

    @property
    def label(self) -> str:
        """`binary ±1`, `binary 0/1`, with a question mark when stochastic."""
        return f"binary {'±1' if self.bipolar else '0/1'}{'?' if self.stochastic else ''}"

    def define(self, x: Tensor) -> Tensor:
        """−1 or 0 and +1; at random where stochastic."""
        import torch

        up = uniform(draw_seed(), x) < _chance(x) if self.stochastic else x >= 0 if self.bipolar else x > 0
        value = torch.where(up, 1.0, -1.0 if self.bipolar else 0.0).to(x.dtype)
        return torch.where(torch.isnan(x), x, value)

    def inside(self, x: Tensor) -> Tensor:
        """|x| ≤ 1."""
        return x.abs() <= 1

    def encode(self, x: Array) -> Encoded:
        """1 for +1, by the rule without chance."""
        x = np.asarray(x)
        return Encoded(np.asarray(x >= 0 if self.bipolar else x > 0, np.int64))

    def decode(self, encoded: Encoded) -> Array:
        """−1 or 0, and +1."""
        codes = np.asarray(encoded.codes, np.float32)
        return np.asarray(codes * 2 - 1 if self.bipolar else codes, np.float32)

    def codes(self) -> Array:
        """Both values."""
        return self.decode(Encoded(np.arange(2)))


def trained(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without the labs' `binary_training`; raises FormatError where it is to be false."""
    known = dict(values)
    if known.pop("binary_training", True) is not True:
        raise FormatError(f"{name}: binary_training is false.", "Leave the layer in float, or set it to true.")
    return known


def signs_alone(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` of scaled signs without what the labs write out: of one bit each, bipolar, by the rule.

    Raises FormatError where they are to be otherwise.
    """
    known = unsaid(trained(name, values), width=1, bipolar=True, stochastic=False)
    if known.get("stochastic") is True:
        raise FormatError(f"{name}: stochastic is true.", "Leave it out, or choose binary(stochastic=true).")
    if known.get("bipolar") is False:
        raise FormatError(f"{name}: bipolar is false.", "Its signs are −1 and +1; binary has 0 and 1.")
    return known


# -- chance


def _chance(x: Tensor) -> Tensor:
    """P(+1) in float32."""
    return ((x.float() + 1) * 0.5).clamp(0, 1)


def draw_seed() -> int:
    """A seed from torch's default generator on the CPU, whatever device computes: 63 random bits."""
    import torch

    return int(torch.empty((), dtype=torch.int64).random_())


def _signed(number: int) -> int:
    """The int64 of the same bits."""
    number %= _UINT
    return number - _UINT if number >= _UINT // 2 else number


def uniform(seed: int, x: Tensor) -> Tensor:
    """u of each element of `x` (its shape, float32), in [0, 1); the hash of the class."""
    import torch

    z = torch.arange(1, x.numel() + 1, device=x.device).mul_(_signed(_GOLDEN)).add_(_signed(seed))
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z = (z ^ _right(z, shift)) * _signed(factor)
    return (_right(z ^ _right(z, 31), 40).float() * 2.0**-24).reshape(x.shape)


def _right(z: Tensor, shift: int) -> Tensor:
    """Logical shift: torch's own drags the sign along."""
    return (z >> shift) & (2 ** (64 - shift) - 1)
