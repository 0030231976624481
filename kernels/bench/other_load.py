"""Share of the processors used by other programs during a measurement, which slows it down."""

from __future__ import annotations

import time
from dataclasses import dataclass

from espalier.kernels.bench import processors

LEAST = 0.1  # seconds below which the system's ticks are too coarse
TELLING = 0.1  # share from which times are affected


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds: wall clock, busy time of the allowed processors, of this process, and of its control group with a
    quota."""

    wall: float
    busy: float
    own: float
    group: float | None = None


class OtherLoad:
    """Measures the load by other programs on the allowed processors since its creation."""

    def __init__(self) -> None:
        self._then = _read_times()

    def share(self) -> float | None:
        """The share of this process's processors that others used; None after too short a time, or if the system does
        not report it. With a quota only the load within the quota counts."""
        start, now = self._then, _read_times()
        wall, busy, own = now.wall - start.wall, now.busy - start.busy, now.own - start.own
        if wall < LEAST or busy <= 0:
            return None
        limit, visible = processors.cpu_limit(), len(processors.allowed_cpus())
        available = visible - (busy - own) / wall
        if now.group is not None and start.group is not None:
            available = min(available, limit - (now.group - start.group - own) / wall)
        return min(max(1 - available / limit, 0.0), 1.0)


def busy_note(share: float | None) -> str:
    """A warning that other programs used the processors during timing; empty for a small share."""
    if share is None or share < TELLING:
        return ""
    return (
        f"Other programs took {100 * share:.0f}\u2009% of the processors meanwhile: measure again without them to "
        "compare times."
    )


def _read_times() -> Seconds:
    import psutil

    per_cpu, allowed = psutil.cpu_times(percpu=True), set(processors.allowed_cpus())
    # psutil lists online processors without numbers, so that indices differ from the system's if one is offline.
    is_numbered = max(allowed, default=0) < len(per_cpu)
    times = [t._asdict() for at, t in enumerate(per_cpu) if at in allowed or not is_numbered]
    # guest time is part of the host's; steal time counts as the load of others
    idle = ("idle", "iowait", "guest", "guest_nice")
    busy = sum(seconds for cpu_times in times for name, seconds in cpu_times.items() if name not in idle)
    return Seconds(time.perf_counter(), busy, time.process_time(), processors.group_seconds())
