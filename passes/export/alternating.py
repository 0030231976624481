"""Times of calls that take turns. Processes of runtimes run this file by its path: it imports nothing of Espalier."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

WARM = 3  # runs before the timed ones


def alternated(calls: Sequence[Any], runs: int) -> list[float]:
    """Median seconds of each call, all of them in turn, so that other load meets all alike.

    Each timed call follows an untimed one of its own, since otherwise the caches hold what the call before it needs.
    """
    seconds: list[list[float]] = [[] for _ in calls]
    for turn in range(WARM + runs):
        for call, found in zip(calls, seconds, strict=True):
            call()
            start = time.perf_counter()
            call()
            if turn >= WARM:
                found.append(time.perf_counter() - start)
    return [statistics.median(s) for s in seconds]
