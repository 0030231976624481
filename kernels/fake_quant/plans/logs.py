"""`log` and `block_log`: exponent bits of the pattern, rounded up from a significand of √2 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.kernels.fake_quant.plans.ends import MOST, most_pattern
from espalier.kernels.fake_quant.plans.small_floats import saturates
from espalier.model.formats.block_log import BlockLog
from espalier.model.formats.log import Log

if TYPE_CHECKING:
    import torch

ABOVE_ROOT = 0x3504F4  # significand bits of the smallest float32 above √2
CARRY = np.int32((1 << 23) - ABOVE_ROOT)  # added to these, it carries into the exponent
NORMAL = 1 << 23  # pattern of 2^−126
LEAST_DENORMAL = 0x5A827A  # pattern of the smallest float32 above 2^−126.5


def limits(low: int, high: int) -> tuple[int, int, int]:
    """Patterns: the smallest nonzero power, the largest power, and the limit below which only the definition can
    compute."""
    if low < -126:
        lowest, tiny = NORMAL, NORMAL
    else:
        lowest, tiny = LEAST_DENORMAL if low == -126 else (low + 126) << 23 | ABOVE_ROOT, 0
    return lowest, (high + 127) << 23, tiny


def last_inside(highest: int) -> np.float32:
    """The largest number whose nearest power is at most that of the pattern `highest`."""
    pattern = (highest | ABOVE_ROOT) - 1
    return min(np.int32(pattern).view(np.float32), MOST)


@register_plan(Log)
def log(fmt: Log, dtype: torch.dtype) -> Plan | None:
    """Where the gradient ends, and the format's limits as patterns."""
    low, high = fmt.limits
    if high < -126 or not saturates(fmt, 2.0**high, dtype):
        return None
    lowest, highest, tiny = limits(low, high)
    last = last_inside(highest)
    return Plan("power_of_two", (-last, last, CARRY, *map(np.int32, (lowest, highest, tiny))))


@register_plan(BlockLog)
def block_log(fmt: BlockLog, dtype: torch.dtype) -> Plan:
    """The largest code's biased float32 exponent at bias 0, and the largest bias; if some bias puts the threshold of
    zero below the normal numbers, tiny numbers are left to the definition."""
    max_bias, code = 2**fmt.exponent_bias_width - 1, fmt.top_code + 127
    tiny = NORMAL if min(max_bias, code - 1) > 127 else 0
    numbers = (CARRY, min(code, 2**10), max_bias, tiny)  # beyond 2^10 every bias is the largest
    return Plan("power_blocks", (most_pattern(dtype), *map(np.int32, numbers)), fmt.blocks)
