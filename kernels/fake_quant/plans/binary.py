"""`binary` with deterministic rounding: a comparison. Stochastic rounding uses the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.model.formats.binary import Binary

if TYPE_CHECKING:
    import torch


@register_plan(Binary)
def binary(fmt: Binary, dtype: torch.dtype) -> Plan | None:
    """Where the gradient ends, threshold, lower and upper value."""
    if fmt.stochastic:
        return None
    constants = tuple(np.float32(v) for v in (-1, 1, 0, -1 if fmt.bipolar else 0, 1))
    return Plan("above" if fmt.bipolar else "beyond", constants)
