"""`integer`: one multiplication, rounding, clipping; in float64 where its codes exceed 24 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.fake_quant.plan import Plan, planned
from model.formats.integer import Integer

if TYPE_CHECKING:
    import torch


@planned(Integer)
def integer(fmt: Integer, dtype: torch.dtype) -> Plan:
    """2^f, 2^−f, the limits of the value in `dtype` and those of the gradient."""
    work = np.float64 if fmt.width > 24 else np.float32
    value_limits = fmt._limits_in(dtype)  # pyright: ignore[reportPrivateUsage]
    constants = (2.0**fmt.frac_width, 2.0**-fmt.frac_width, *value_limits, *fmt.limits)
    return Plan("integer_floor" if fmt.rounding == "floor" else "integer", tuple(work(c) for c in constants))
