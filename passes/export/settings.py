"""What an export may be told besides its form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

_EXACT = "equal results but for float rounding; by default integer operators round biases and clip at code −128"
_CLIP = "where uint8 activations are clipped: at the ends of the format, or of the codes (faster after a Relu)"
_DYNAMIC = "scales from the data: as the format says, or as onnxruntime takes them (uint8 of the whole tensor)"
_LEVEL = "of products of float activations with stored integers: 1 computes in float32, 4 rounds activations to int8"
_STANDARD = "ONNX's own operators alone, for other runtimes than onnxruntime"


_IDS_ONLY = "write no vocabulary; llama.cpp's library then takes token ids, and its programs end with an error"
_LARGEST = "upper bound of free sizes (batch, sequence), or twice those of the trace; memory is planned for it"


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """How an ONNX file computes: where an integer operator rounds otherwise than the model, the choice is here."""

    exact: bool = field(default=False, metadata={"help": _EXACT})
    clip: Literal["format", "code"] = field(default="format", metadata={"help": _CLIP})
    dynamic: Literal["format", "runtime"] = field(default="format", metadata={"help": _DYNAMIC})
    accuracy_level: int = field(default=1, metadata={"min": 1, "max": 4, "help": _LEVEL})
    standard: bool = field(default=False, metadata={"help": _STANDARD})


@dataclass(frozen=True, slots=True)
class ExecuTorchOptions:
    """What an ExecuTorch program is planned for."""

    largest: int = field(default=128, metadata={"min": 1, "max": 1 << 20, "help": _LARGEST})


@dataclass(frozen=True, slots=True)
class GgufOptions:
    """What a GGUF file has besides tensors."""

    ids_only: bool = field(default=False, metadata={"help": _IDS_ONLY})


@dataclass(frozen=True, slots=True)
class Settings:
    """`leave_float`: leave out, and tell, the formats of activations that the form has no equal of.

    `progress`: hears how far it is, and may stop it (JobError). `onnx`: of an ONNX file alone; `executorch`: of a
    program for ExecuTorch; `gguf`: of a GGUF file.
    """

    leave_float: bool = False
    progress: Callable[[int, int, str], None] = _silent
    onnx: OnnxOptions = OnnxOptions()
    executorch: ExecuTorchOptions = ExecuTorchOptions()
    gguf: GgufOptions = GgufOptions()
