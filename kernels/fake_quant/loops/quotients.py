"""x/s without a division, which would double the time of a loop: the reciprocal and one Newton step.

The quotient may differ from the rounded one in its last bit, but no format rounds it to another value: tested for all
quotients close to a tie (tests/kernels/test_quotients.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.words import fused

SMALL, LARGE = np.float32(2.0**-60), np.float32(2.0**60)  # divisors with normal reciprocals


@register_jitable
def quotient(x: Any, s: Any, inverse: Any) -> Any:
    """x/s for finite x of a moderate multiple of s; `inverse`: the rounded reciprocal of s; −0 stays."""
    q = x * inverse  # the remainder is q·s − x: for −0 it is +0, and −0 − (+0) = −0
    return fused(fused(q, s, -x), -inverse, q)  # pyright: ignore[reportCallIssue]
