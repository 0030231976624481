"""Timing of calls in turns: each round runs all of them, so that other load on the machine affects all equally.

Cold: the caches are overwritten before each call. Warm: the same call right after. CUDA is timed with events.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from espalier.kernels.bench.machine import cache_bytes
from espalier.kernels.bench.other_load import OtherLoad

Call = Callable[[], Any]
FLUSH_MOST = {"cpu": 96 << 20, "cuda": 256 << 20}  # a CPU's last-level cache may be shared
LEAST_ROUNDS = 3
COVER = 2_000_000  # cycles, about a millisecond


@dataclass(slots=True)
class Samples:
    """Seconds of one call, by round; `first`: the first call, compilation included.

    `others`: the share of the processors used by other programs meanwhile.
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
        """Overwrite the caches."""
        self._other.zero_()

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def wall(self, call: Call) -> float:
        """Wall-clock seconds of a call that may compile."""
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def cover(self) -> None:
        """Occupy the GPU while the host launches the next timed call."""
        torch.cuda._sleep(COVER)  # pyright: ignore[reportPrivateUsage]

    def pair(self, call: Call) -> tuple[float, float]:
        """(cold, warm) seconds of a call."""
        if self.device != "cuda":
            self.flush()
            return self.wall(call), self.wall(call)
        events: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        self.flush()
        self.cover()
        events[0].record()
        call()
        events[1].record()
        self.cover()
        call()
        events[2].record()
        call()
        events[3].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]) / 1e3, events[2].elapsed_time(events[3]) / 1e3


def take_turns(
    calls: Mapping[str, Call], device: str, seconds: float, max_rounds: int, between: Callable[[], None]
) -> dict[str, Samples]:
    """Samples of each call: rounds until each took about `seconds`, at least three, at most `max_rounds`.

    The first call of each, which may compile, is separate; a second one warms up. `between` runs before each call and
    may raise to stop.
    """
    clock = Clock(device)
    samples_of = {name: Samples() for name in calls}
    for name, call in calls.items():
        between()
        samples_of[name].first = clock.wall(call)
        clock.wall(call)
    budget, started, load = seconds * len(calls), time.perf_counter(), OtherLoad()
    for count in range(max_rounds):
        if count >= LEAST_ROUNDS and time.perf_counter() - started > budget:
            break
        for name, call in _turned(list(calls.items()), count):
            between()
            cold, warm = clock.pair(call)
            samples_of[name].cold.append(cold)
            samples_of[name].warm.append(warm)
    share = load.share() if device == "cpu" else None
    for samples in samples_of.values():
        samples.others = share
    return samples_of


def _turned(items: list[tuple[str, Call]], by: int) -> list[tuple[str, Call]]:
    """The items rotated by `by`, so that each round starts with another call."""
    by %= len(items)
    return items[by:] + items[:by]


def spread(samples: list[float]) -> float:
    """Half the interquartile range over the median."""
    if len(samples) < 4:
        return (max(samples) - min(samples)) / 2 / statistics.median(samples)
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2 / middle
