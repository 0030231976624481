"""x/s without a division, which costs as much as all else together: from the reciprocal and one step of Newton.

The quotient may differ from the rounded one in its last bit, yet no format rounds it to another value: tried for all
that come near one of its ties (tests/kernels/test_quotients.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.words import fused

SMALL, LARGE = np.float32(2.0**-60), np.float32(2.0**60)  # divisors whose reciprocals lose nothing


@register_jitable
def quotient(x: Any, s: Any, inverse: Any) -> Any:
    """x/s for finite x that is not far larger than s, `inverse` the rounded reciprocal of s; −0 stays."""
    q = x * inverse  # what is left over is taken as q·s − x: of −0 that is +0, and −0 − (+0) stays −0
    return fused(fused(q, s, -x), -inverse, q)  # pyright: ignore[reportCallIssue]
