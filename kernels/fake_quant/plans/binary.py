"""`binary` by rule: one comparison. By chance it keeps the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.fake_quant.plan import Plan, planned
from model.formats.binary import Binary

if TYPE_CHECKING:
    import torch


@planned(Binary)
def binary(fmt: Binary, dtype: torch.dtype) -> Plan | None:
    """Threshold, lower and upper value."""
    if fmt.stochastic:
        return None
    smallest = np.finfo(np.float32).smallest_subnormal
    return Plan("above", (np.float32(0), np.float32(-1), np.float32(1)) if fmt.bipolar else
                (smallest, np.float32(0), np.float32(1)))  # fmt: skip
