"""How much of the processors other programs take while something is timed: calls take longer then, often all alike."""

from __future__ import annotations

import time

LEAST = 0.1  # seconds below which the system's ticks tell nothing
TELLING = 0.1  # the share from which times suffer


class Others:
    """Watches the processors from its making on."""

    def __init__(self) -> None:
        self._wall, self._busy, self._own = _now()

    def share(self) -> float | None:
        """Of all processors, what others took since; None after too short a time, or where the system does not tell."""
        wall, busy, own = (now - then for now, then in zip(_now(), (self._wall, self._busy, self._own), strict=True))
        if wall < LEAST or busy <= 0:
            return None
        return min(max((busy - own) / (wall * _cores()), 0.0), 1.0)


def _now() -> tuple[float, float, float]:
    """Seconds by the clock, of all processors at work, and of this process on them."""
    import psutil

    taken = psutil.cpu_times()._asdict()
    # a guest's time is part of its host's; what a hypervisor gave to others counts as theirs
    idle = sum(taken.get(name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice"))
    return time.perf_counter(), sum(taken.values()) - idle, time.process_time()


def _cores() -> int:
    import psutil

    return psutil.cpu_count() or 1
