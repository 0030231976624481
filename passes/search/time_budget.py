"""The working time of a search, without pauses and progress reports."""

from __future__ import annotations

import time
from collections.abc import Callable

START_SHARE = 4  # each half of a warm start's statistics may take a quarter of the timeout


class TimeBudget:
    """Counts from its creation. A paused job waits inside `progress`. `timeout`: seconds; 0: none."""

    def __init__(self, progress: Callable[[int, int, str], None], timeout: float) -> None:
        self._progress, self._timeout = progress, timeout
        self._waited = 0.0
        self._begun = time.monotonic()

    def now(self) -> float:
        """Seconds of work so far."""
        return time.monotonic() - self._begun - self._waited

    def progress(self, done: int, total: int, text: str) -> None:
        """Report progress; the time that the call takes does not count."""
        begun = time.monotonic()
        try:
            self._progress(done, total, text)
        finally:
            self._waited += time.monotonic() - begun

    @property
    def spent(self) -> bool:
        """Whether the timeout has passed."""
        return bool(self._timeout) and self.now() >= self._timeout

    def limited_to_remaining(self, seconds: float) -> float:
        """`seconds`, limited to the remaining time."""
        return min(seconds, max(self._timeout - self.now(), 0.0)) if self._timeout else seconds

    def start(self, seconds: float) -> float:
        """A limit in seconds (0: none) for a warm start's statistics that leaves time for trials."""
        share = self._timeout / START_SHARE
        return min(seconds, share) if seconds and share else seconds or share
