"""The time that a search has spent: without that in which it was paused, or reported its progress."""

from __future__ import annotations

import time
from collections.abc import Callable

START_SHARE = 4  # of a search's time, the part that each half of a warm start's evidence may take


class TimeBudget:
    """Counts from its creation. `progress` is where a paused job waits."""

    def __init__(self, progress: Callable[[int, int, str], None], timeout: float) -> None:
        self._progress, self._timeout = progress, timeout
        self._waited = 0.0
        self._begun = time.monotonic()

    def now(self) -> float:
        """Seconds of work so far."""
        return time.monotonic() - self._begun - self._waited

    def progress(self, done: int, total: int, text: str) -> None:
        """Report progress; the time that takes does not count."""
        begun = time.monotonic()
        try:
            self._progress(done, total, text)
        finally:
            self._waited += time.monotonic() - begun

    @property
    def spent(self) -> bool:
        """Whether the search's time has run out."""
        return bool(self._timeout) and self.now() >= self._timeout

    def at_most(self, seconds: float) -> float:
        """So many seconds, but no more than are left."""
        return min(seconds, max(self._timeout - self.now(), 0.0)) if self._timeout else seconds

    def start(self, seconds: float) -> float:
        """A limit for the evidence of a warm start (0: none), such that time is left for trials."""
        share = self._timeout / START_SHARE
        return min(seconds, share) if seconds and share else seconds or share
