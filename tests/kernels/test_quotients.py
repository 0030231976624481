"""The quotient without a division lies on the same side of every tie as the rounded one.

Its error before the last rounding is at most 3·2^−24 of a last place, so only quotients that come as near as that to
the middle between a tie's neighbours can differ. These are few, and a linear congruence gives all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

quotients = pytest.importorskip("espalier.kernels.fake_quant.loops.quotients", reason="numba is not installed")

from espalier.kernels.fake_quant.loops.compiled import loop  # noqa: E402

ODD = np.arange(1, 2**16, 2, dtype=np.uint64)  # a tie is an odd number times a power of two: codes of up to 16 bits


@loop
def sides(x: Any, s: Any, tie: Any, out: Any) -> Any:
    """Where quotient and division lie on different sides of the tie."""
    for i in range(x.size):
        inverse = np.float32(1) / s[i]
        q, exact = quotients.quotient(x[i], s[i], inverse), x[i] / s[i]
        out[i] = (q < tie[i]) != (exact < tie[i]) or (q > tie[i]) != (exact > tie[i])


def near_middles(side: int, distance: int, power: int) -> tuple[NDArray[Any], ...]:
    """All (x, s, tie) with x·2^power = (2·tie ± 1)·s + distance, as integers of 24 bits."""
    ties = ODD << np.uint64(23) >> np.floor(np.log2(ODD)).astype(np.uint64)
    middle = ties * np.uint64(2) + np.uint64(side % 2**64)
    inverse = middle.copy()  # of an odd number, modulo a power of two, by Newton
    for _ in range(6):
        inverse *= np.uint64(2) - middle * inverse
    s = (np.uint64(-distance % 2**64) * inverse) & np.uint64(2**power - 1)
    x = (middle * s + np.uint64(distance % 2**64)) >> np.uint64(power)
    real = (s >= 2**23) & (s < 2**24) & (x >= 2**23) & (x < 2**24)
    return x[real], s[real], ties[real]


def test_no_tie_is_missed() -> None:
    tried = 0
    with np.errstate(over="ignore"):
        for side in (-1, 1):
            for power in (24, 25):
                for distance in [d for d in range(-8, 9) if d]:
                    x, s, tie = (v.astype(np.float32) for v in near_middles(side, distance, power))
                    assert (tie * s > 0).all()
                    x = np.ldexp(x, power - 1)  # so that x/s is about the tie
                    wrong = np.zeros(x.size, np.bool_)
                    sides(x, s, tie, wrong)
                    assert not wrong.any(), (x[wrong][:3], s[wrong][:3], tie[wrong][:3])
                    assert (np.abs(x / s - tie) <= 2).all()
                    tried += x.size
    assert tried > 300_000


@pytest.mark.parametrize("seed", range(3))
def test_ordinary_numbers(seed: int) -> None:
    """Quotients around ties at random, scales across the range in use."""
    random = np.random.default_rng(seed)
    s = np.ldexp(random.uniform(1, 2, 10**6), random.integers(-60, 59, 10**6)).astype(np.float32)
    tie = random.integers(0, 2**15, s.size).astype(np.float32) + np.float32(0.5)
    x = (tie.astype(np.float64) * s * (1 + random.integers(-3, 4, s.size) * 2.0**-24)).astype(np.float32)
    wrong = np.zeros(s.size, np.bool_)
    sides(x, s, tie, wrong)
    assert not wrong.any()
