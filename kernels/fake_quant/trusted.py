"""Verifies kernels on this GPU: each format's is compared with its definition, bit by bit, before its first use.

Compilers, drivers and cards differ, and a wrong number is worse than a slow one. Takes some milliseconds, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from espalier.model.formats.base import Format

Values = tuple[Tensor, Tensor | None]
ROWS, COLUMNS = 64, 260  # 260: the last of 16, 32 or 128 elements is a short one
_HELD: dict[tuple[Format, torch.dtype, bool, torch.device], bool] = {}


def trusted(fmt: Format, x: Tensor, gated: bool, kernel: Callable[[Tensor], Values]) -> bool:
    """Whether `kernel` gives the values, and if `gated` the gates, of `fmt` for tensors like `x`; warns where not."""
    key = fmt, x.dtype, gated, x.device
    if key not in _HELD:
        probe = probes(x.dtype).to(x.device)
        value, gate = kernel(probe)
        same = torch.equal(value, fmt.define(probe)) and (gate is None or torch.equal(gate, fmt.inside(probe)))
        _HELD[key] = same
        if not same:
            warnings.warn(f"The kernel of {fmt.label} gives other {x.dtype} values than its definition on {x.device}; "
                          "the definition is used instead.", RuntimeWarning, stacklevel=2)  # fmt: skip
    return _HELD[key]


def probes(dtype: torch.dtype) -> Tensor:
    """(ROWS, COLUMNS) finite values of all magnitudes; ties, ends of the range and denormals among them."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, generator=random)
    powers = torch.arange(ROWS // 2, dtype=torch.float32).sub(ROWS // 4).mul(0.75).exp2()
    x[: ROWS // 2] *= powers[:, None]  # rows of one magnitude, as weights are
    x[ROWS // 2 : ROWS // 2 + 8] *= torch.randint(-140, 120, (8, COLUMNS), generator=random).double().exp2()
    x[-16:] = torch.randint(-600, 600, (16, COLUMNS), generator=random) / 32  # ties
    limits = torch.finfo(dtype)
    x[-17, :6] = torch.tensor([0.0, -0.0, limits.max, -limits.max, limits.tiny, -limits.tiny / 2])
    x[0] = 0.0
    return x.clamp(-limits.max, limits.max).to(dtype)
