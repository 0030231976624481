"""Triton if it is installed; otherwise decorators without effect, so that kernels can be imported anywhere."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import torch

triton: Any = None
tl: Any = None
with suppress(ImportError):
    triton, tl = importlib.import_module("triton"), importlib.import_module("triton.language")

jit: Any = triton.jit if triton else lambda function: function


def in_float32(dtype: torch.dtype, device: str) -> bool:
    """Whether products must be computed in float32, as the interpreter cannot multiply bfloat16."""
    return dtype == torch.float32 or device == "cpu"


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()
