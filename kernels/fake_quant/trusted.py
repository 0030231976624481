"""Verification of kernels on this GPU: each is compared bit by bit with its format's definition before its first use.

Compilers, drivers and GPUs differ, and wrong numbers are worse than slow ones. It takes a few milliseconds once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from espalier.model.formats.base import Format

Values = tuple[Tensor, Tensor | None]
ROWS, COLUMNS = 64, 260  # 260: the last block of 16, 32 or 128 elements is short
_HELD: dict[tuple[Format, torch.dtype, bool, torch.device], bool] = {}


def verified(fmt: Format, x: Tensor, gated: bool, kernel: Callable[[Tensor], Values]) -> bool:
    """Whether `kernel` computes the values, and if `gated` the gates, of `fmt` for tensors like `x`; warns if not."""
    key = fmt, x.dtype, gated, x.device
    if key not in _HELD:
        probe = probes(x.dtype).to(x.device)
        value, gate = kernel(probe)
        equal = torch.equal(value, fmt.define(probe)) and (gate is None or torch.equal(gate, fmt.inside(probe)))
        _HELD[key] = equal
        if not equal:
            warnings.warn(f"The kernel of {fmt.label} gives other {x.dtype} values than its definition on {x.device}; "
                          "the definition is used instead.", RuntimeWarning, stacklevel=2)  # fmt: skip
    return _HELD[key]


def probes(dtype: torch.dtype) -> Tensor:
    """Finite values (ROWS, COLUMNS) of all magnitudes, including ties, range ends and denormals."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, generator=random)
    powers = torch.arange(ROWS // 2, dtype=torch.float32).sub(ROWS // 4).mul(0.75).exp2()
    x[: ROWS // 2] *= powers[:, None]  # rows of one magnitude, like weights
    x[ROWS // 2 : ROWS // 2 + 8] *= torch.randint(-140, 120, (8, COLUMNS), generator=random).double().exp2()
    x[-16:] = torch.randint(-600, 600, (16, COLUMNS), generator=random) / 32  # ties
    limits = torch.finfo(dtype)
    x[-17, :6] = torch.tensor([0.0, -0.0, limits.max, -limits.max, limits.tiny, -limits.tiny / 2])
    x[0] = 0.0
    return x.clamp(-limits.max, limits.max).to(dtype)
