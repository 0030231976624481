"""Binary formats: one bit per element, the sign of x or [x > 0], deterministic or stochastic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, BitField, Encoded, Format, without_implied
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
    int64 draw from torch's default generator per call (`draw_seed`), so that equal torch seeds give equal results.
    `encode` uses the deterministic rule.

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
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept `zero_one=true` for bipolar=false, and the implied `binary_training=true` and `width=1` of the MASE
        labs."""
        parameters = without_implied(without_binary_training(cls.name, values), width=1)
        if isinstance(parameters.get("zero_one"), bool):
            return {"bipolar": not parameters.pop("zero_one"), **parameters}
        return parameters

    def layout(self) -> tuple[BitField, ...]:
        """One bit."""
        return (BitField("sign", "sign", 1) if self.bipolar else BitField("integer", "integer", 1),)

    @property
    def label(self) -> str:
        """`binary ±1`, `binary 0/1`, with a question mark when stochastic."""
        return f"binary {'±1' if self.bipolar else '0/1'}{'?' if self.stochastic else ''}"

    def define(self, x: Tensor) -> Tensor:
        """The lower value (−1, or 0 if not bipolar) or +1; drawn at random if stochastic."""
        import torch

        up = uniform(draw_seed(), x) < _chance(x) if self.stochastic else x >= 0 if self.bipolar else x > 0
        value = torch.where(up, 1.0, -1.0 if self.bipolar else 0.0).to(x.dtype)
        return torch.where(torch.isnan(x), x, value)

    def inside(self, x: Tensor) -> Tensor:
        """|x| ≤ 1."""
        return x.abs() <= 1

    def encode(self, x: Array) -> Encoded:
        """Code 1 for +1, by the deterministic rule."""
        x = np.asarray(x)
        return Encoded(np.asarray(x >= 0 if self.bipolar else x > 0, np.int64))

    def decode(self, encoded: Encoded) -> Array:
        """−1 (0 if not bipolar) and +1, float32."""
        codes = np.asarray(encoded.codes, np.float32)
        return np.asarray(codes * 2 - 1 if self.bipolar else codes, np.float32)

    def codes(self) -> Array:
        """Both values."""
        return self.decode(Encoded(np.arange(2)))


def without_binary_training(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without the MASE labs' `binary_training`; raises FormatError if it is false."""
    parameters = dict(values)
    if parameters.pop("binary_training", True) is not True:
        raise FormatError(f"{name}: binary_training is false.", "Leave the layer in float, or set it to true.")
    return parameters


def sign_parameters(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` of a scaled-sign format without parameters that it implies: width 1, bipolar, deterministic.

    Raises FormatError if `stochastic` or `bipolar` has another value.
    """
    parameters = without_implied(without_binary_training(name, values), width=1, bipolar=True, stochastic=False)
    if parameters.get("stochastic") is True:
        raise FormatError(f"{name}: stochastic is true.", "Leave it out, or choose binary(stochastic=true).")
    if parameters.get("bipolar") is False:
        raise FormatError(f"{name}: bipolar is false.", "Its signs are −1 and +1; binary has 0 and 1.")
    return parameters


# -- random numbers


def _chance(x: Tensor) -> Tensor:
    """P(+1) in float32."""
    return ((x.float() + 1) * 0.5).clamp(0, 1)


def draw_seed() -> int:
    """A seed of 63 random bits from torch's default CPU generator, whichever device computes."""
    import torch

    return int(torch.empty((), dtype=torch.int64).random_())


def _signed(number: int) -> int:
    """The int64 with the same 64 bits."""
    number %= _UINT
    return number - _UINT if number >= _UINT // 2 else number


def uniform(seed: int, x: Tensor) -> Tensor:
    """u in [0, 1) for each element of `x`, in its shape, float32; the hash is documented at `Binary`."""
    import torch

    z = torch.arange(1, x.numel() + 1, device=x.device).mul_(_signed(_GOLDEN)).add_(_signed(seed))
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z = (z ^ _right(z, shift)) * _signed(factor)
    return (_right(z ^ _right(z, 31), 40).float() * 2.0**-24).reshape(x.shape)


def _right(z: Tensor, shift: int) -> Tensor:
    """Logical right shift; torch's `>>` is arithmetic."""
    return (z >> shift) & (2 ** (64 - shift) - 1)
