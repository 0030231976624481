"""What an export may be told besides its form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`leave_float`: leave out, and tell, the formats of activations that the form has no equal of.

    ONNX: `exact`: results equal to the model's but for float rounding, where the default lets the runtime's integer
    operators round biases and clip one code further. `clip`: where else activations are clipped: at the ends of their
    format, or of uint8 codes, which is faster after a Relu. `dynamic`: scales from the data as the format says, or as the
    runtime takes them (uint8 of the whole tensor). `accuracy_level`: of products with stored integers and float
    activations: 1 computes in float32, 4 rounds activations to int8. `standard`: ONNX's own operators alone.

    `progress`: hears how far it is, and may stop it (JobError).
    """

    leave_float: bool = False
    progress: Callable[[int, int, str], None] = _silent
    exact: bool = False
    dynamic: Literal["format", "runtime"] = "format"
    clip: Literal["format", "code"] = "format"
    accuracy_level: Literal[1, 4] = 1
    standard: bool = False
