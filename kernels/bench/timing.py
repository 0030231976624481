"""Times calls in turns: each round runs all of them, so that other load on the machine affects all alike.

Cold: the caches are written over before each call. Warm: the same call right after. CUDA is timed with events.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from espalier.kernels.bench.machine import cache_bytes
from espalier.kernels.bench.others import Others

Call = Callable[[], Any]
FLUSH_MOST = {"cpu": 96 << 20, "cuda": 256 << 20}  # a CPU's last cache may be many others' too
LEAST_ROUNDS = 3
COVER = 2_000_000  # cycles, about a millisecond


@dataclass(slots=True)
class Samples:
    """Seconds of one call, round by round; `first`: of the first call, compilation included.

    `others`: the share of the processors that other programs took meanwhile.
    """

    first: float = 0.0
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    others: float | None = None


class Clock:
    """Times one call on a device and empties its caches."""

    def __init__(self, device: str) -> None:
        self.device = device
        size = min(max(2 * cache_bytes(device), 32 << 20), FLUSH_MOST[device])
        self._other = torch.empty(size, dtype=torch.uint8, device=device)

    def flush(self) -> None:
        """Write over the caches."""
        self._other.zero_()

    def wait(self) -> None:
        """Until the device has done all."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def wall(self, call: Call) -> float:
        """Seconds by the clock, of a call that may compile."""
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def cover(self) -> None:
        """Keep the GPU waiting while the host launches what is timed next."""
        torch.cuda._sleep(COVER)  # pyright: ignore[reportPrivateUsage]

    def pair(self, call: Call) -> tuple[float, float]:
        """Seconds cold and warm."""
        if self.device != "cuda":
            self.flush()
            return self.wall(call), self.wall(call)
        marks: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        self.flush()
        self.cover()
        marks[0].record()
        call()
        marks[1].record()
        self.cover()
        call()
        marks[2].record()
        call()
        marks[3].record()
        torch.cuda.synchronize()
        return marks[0].elapsed_time(marks[1]) / 1e3, marks[2].elapsed_time(marks[3]) / 1e3


def take_turns(
    calls: Mapping[str, Call], device: str, seconds: float, most: int, between: Callable[[], None]
) -> dict[str, Samples]:
    """Samples of each call: rounds until each had about `seconds`, at least three, at most `most`.

    The first call of each, which may compile, is kept apart; a second warms up. `between` runs before each call and may
    raise to stop.
    """
    clock = Clock(device)
    found = {name: Samples() for name in calls}
    for name, call in calls.items():
        between()
        found[name].first = clock.wall(call)
        clock.wall(call)
    budget, begun, others = seconds * len(calls), time.perf_counter(), Others()
    for count in range(most):
        if count >= LEAST_ROUNDS and time.perf_counter() - begun > budget:
            break
        for name, call in _turned(list(calls.items()), count):
            between()
            cold, warm = clock.pair(call)
            found[name].cold.append(cold)
            found[name].warm.append(warm)
    taken = others.share() if device == "cpu" else None
    for samples in found.values():
        samples.others = taken
    return found


def _turned(items: list[tuple[str, Call]], by: int) -> list[tuple[str, Call]]:
    """Another one begins each round, so that nobody always follows the same."""
    by %= len(items)
    return items[by:] + items[:by]


def spread(samples: list[float]) -> float:
    """Half the distance between the quartiles over the median."""
    if len(samples) < 4:
        return (max(samples) - min(samples)) / 2 / statistics.median(samples)
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2 / middle
