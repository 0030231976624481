"""`log` and `block_log`: exponent bits of the pattern, rounded where the significand passes √2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, planned
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
    """Patterns: the smallest that is not zero, the largest power, and below which only the definition will do."""
    if low < -126:
        least, tiny = NORMAL, NORMAL
    else:
        least, tiny = LEAST_DENORMAL if low == -126 else (low + 126) << 23 | ABOVE_ROOT, 0
    return least, (high + 127) << 23, tiny


def last_inside(highest: int) -> np.float32:
    """The largest number whose nearest power is at most that of the pattern `highest`."""
    pattern = (highest | ABOVE_ROOT) - 1
    return min(np.int32(pattern).view(np.float32), MOST)


@planned(Log)
def log(fmt: Log, dtype: torch.dtype) -> Plan | None:
    """Where the gradient ends, and the format's limits as patterns."""
    low, high = fmt.limits
    if high < -126 or not saturates(fmt, 2.0**high, dtype):
        return None
    least, highest, tiny = limits(low, high)
    last = last_inside(highest)
    return Plan("power_of_two", (-last, last, CARRY, *map(np.int32, (least, highest, tiny))))


@planned(BlockLog)
def block_log(fmt: BlockLog, dtype: torch.dtype) -> Plan:
    """The largest code's exponent at bias 0 as float32 would write it, and the largest bias; where some bias puts zero
    below all normal numbers, tiny ones are left to the definition."""
    reach, code = 2**fmt.exponent_bias_width - 1, fmt.top_code + 127
    tiny = NORMAL if min(reach, code - 1) > 127 else 0
    numbers = (CARRY, min(code, 2**10), reach, tiny)  # beyond 2^10 all biases are the largest
    return Plan("power_blocks", (most_pattern(dtype), *map(np.int32, numbers)), fmt.blocks)
