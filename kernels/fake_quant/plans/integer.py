"""`integer`: one multiplication, rounding and clipping; in float64 for codes of more than 24 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.kernels.fake_quant.plans.ends import last_below, saturated
from espalier.model.formats.integer import Integer

if TYPE_CHECKING:
    import torch


@register_plan(Integer)
def integer(fmt: Integer, dtype: torch.dtype) -> Plan:
    """Where the gradient ends, 2^f, 2^−f, the limits of the value in `dtype`."""
    work = np.float64 if fmt.width > 24 else np.float32
    up, down = 2.0**fmt.frac_width, 2.0**-fmt.frac_width
    limits = (saturated(c * down, dtype) * up for c in fmt._limits_in(dtype))  # pyright: ignore[reportPrivateUsage]
    floor = fmt.rounding == "floor"
    constants = (*_ends(fmt, work, floor), *(work(c) for c in (up, down, *limits)))
    return Plan("integer_floor" if floor else "integer", constants)


def _ends(fmt: Integer, work: type[np.floating], floor: bool) -> tuple[np.float32, np.float32]:
    """Smallest and largest x whose code is not clipped."""
    low, high = fmt.limits
    up, down = work(2.0**fmt.frac_width), 2.0**-fmt.frac_width
    up_code, down_code = (np.floor, np.ceil) if floor else (np.rint, np.rint)
    half = 0.0 if floor else 0.5
    last = last_below(lambda x: float(up_code(work(x) * up)), high, (high + 1 - half) * down)
    first = last_below(lambda x: float(down_code(work(x) * up)), -low, (-low + half) * down)
    return np.float32(-first), last
