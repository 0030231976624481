"""Measured limits of this machine: bandwidth of a copy, rate of a matrix product; they define the roofline.

torch is imported by a measurement only, since the window reads results.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from espalier.kernels.bench.timing import Clock

COPY_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}
SIDE = {"cpu": 1024, "cuda": 8192}
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Ceilings:
    """`copy_gb_s`: bytes read and written by a copy beyond the caches; `matmul_tflop_s`: by dtype."""

    device: str
    copy_gb_s: float
    matmul_tflop_s: dict[str, float] = field(default_factory=dict)

    def roof(self, intensity: float, dtype: str) -> float:
        """The smaller of both limits at an intensity in FLOPs per byte, in TFLOP/s."""
        memory = intensity * self.copy_gb_s / 1e3
        return min(memory, self.matmul_tflop_s.get(dtype, memory))

    def least_seconds(self, flops: float, traffic: float, dtype: str) -> float:
        """Lower bound of the seconds: the larger of the times for the bytes and for the FLOPs."""
        rate = self.matmul_tflop_s.get(dtype)
        return max(traffic / (self.copy_gb_s * 1e9), flops / (rate * 1e12) if rate else 0.0)


def measured(device: str, dtypes: Iterable[str], between: Callable[[], None]) -> Ceilings:
    """Both limits, on random data; `between` may raise to stop."""
    import torch

    from espalier.kernels.bench.timing import Clock

    clock = Clock(device)
    size = COPY_BYTES[device]
    between()
    source = torch.empty(size, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    copy = _median(clock, lambda: target.copy_(source), between)
    rates: dict[str, float] = {}
    for dtype in dtypes:
        between()
        rates[dtype] = _rate(clock, getattr(torch, dtype))
    return Ceilings(device, 2 * size / copy / 1e9, rates)


def _rate(clock: Clock, dtype: torch.dtype) -> float:
    """TFLOP/s of a square matrix product with torch's defaults (float32 without tf32)."""
    import torch

    n = SIDE[clock.device] // (2 if clock.device == "cpu" and dtype != torch.float32 else 1)
    a, b = (torch.randn(n, n, device=clock.device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    seconds = _median(clock, lambda: torch.mm(a, b, out=out), lambda: None)
    return 2 * n**3 / seconds / 1e12


def _median(clock: Clock, call: Callable[[], Any], between: Callable[[], None]) -> float:
    """Median of the warm seconds; on a CPU their minimum, which excludes the load of other programs."""
    clock.wall(call)
    seconds: list[float] = []
    for _ in range(ROUNDS):
        between()
        seconds.append(clock.pair(call)[1] if clock.device == "cuda" else clock.wall(call))
    return statistics.median(seconds) if clock.device == "cuda" else min(seconds)
