"""Share of the processors that other programs use during a measurement, which makes calls slower."""

from __future__ import annotations

import time
from dataclasses import dataclass

from espalier.kernels.bench import processors

LEAST = 0.1  # seconds below which the system's ticks tell nothing
TELLING = 0.1  # the share from which times suffer


@dataclass(frozen=True, slots=True)
class Seconds:
    """By the clock, of our processors at work, of this process, and of all of its control group if that has a quota."""

    wall: float
    busy: float
    own: float
    group: float | None = None


class Others:
    """Watches the processors that this process may use, from its making on."""

    def __init__(self) -> None:
        self._then = _now()

    def share(self) -> float | None:
        """Of what this process may use, what others took since; None after too short a time, or where the system does
        not tell. Under a quota what others take beyond it does no harm, and what they take of it does."""
        then, now = self._then, _now()
        wall, busy, own = now.wall - then.wall, now.busy - then.busy, now.own - then.own
        if wall < LEAST or busy <= 0:
            return None
        most, seen = processors.allowed(), len(processors.ours())
        left = seen - (busy - own) / wall
        if now.group is not None and then.group is not None:
            left = min(left, most - (now.group - then.group - own) / wall)
        return min(max(1 - left / most, 0.0), 1.0)


def busy_words(share: float | None) -> str:
    """That the machine was busy with something else while things were timed; empty where it hardly was."""
    if share is None or share < TELLING:
        return ""
    return (
        f"Other programs took {100 * share:.0f}\u2009% of the processors meanwhile: measure again without them to "
        "compare times."
    )


def _now() -> Seconds:
    import psutil

    each, mine = psutil.cpu_times(percpu=True), set(processors.ours())
    # psutil tells processors in their order, without numbers: where one is off, places are not the system's numbers.
    known = max(mine, default=0) < len(each)
    held = [t._asdict() for at, t in enumerate(each) if at in mine or not known]
    # a guest's time is part of its host's; what a hypervisor gave to others counts as theirs
    idle = ("idle", "iowait", "guest", "guest_nice")
    busy = sum(seconds for taken in held for name, seconds in taken.items() if name not in idle)
    return Seconds(time.perf_counter(), busy, time.process_time(), processors.group_seconds())
