"""Tells once that a storage went away, and once that it is back: whoever waits minutes must know what for.

A call that nobody answers hangs within a library's C code, so a thread looks at how long calls have been under way.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator

STORAGE = "The storage"
SLOW = 3.0  # seconds after which a call counts as not answered
LOOK = 0.5  # seconds between two looks


class Outage:
    """Of this process' storage: since when it is away, when it came back last, and who is told."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.returned = 0.0
        self._tell: Callable[[str], None] = lambda text: None
        self._calls: dict[int, tuple[str, float]] = {}
        self._lock = threading.RLock()
        self._looks: threading.Thread | None = None

    @contextlib.contextmanager
    def told(self, tell: Callable[[str], None]) -> Generator[None]:
        """Who hears of it meanwhile, from any thread."""
        before, self._tell, self.since = self._tell, tell, None
        try:
            yield
        finally:
            self._tell, self.since = before, None

    def away(self, name: str, why: str, since: float | None = None) -> None:
        """A storage does not answer; `since` by the monotonic clock."""
        with self._lock:
            if self.since is not None:
                return
            self.since = time.monotonic() if since is None else since
            begun = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - self.since)))
        self._tell(f"{name} is away since {begun}: {why.rstrip('. ')}. Trying again; nothing is lost.")

    def back(self, name: str) -> None:
        """It answers; once, where it did not before."""
        with self._lock:
            since, self.since = self.since, None
            self.returned = self.returned if since is None else time.monotonic()
        if since is not None:
            self._tell(f"{name} is back after {time.monotonic() - since:.0f} s.")

    @contextlib.contextmanager
    def calling(self, name: str) -> Generator[None]:
        """A call to a storage that may hang; its end means that there is one, unless it raises."""
        key = threading.get_ident()
        self._calls[key] = name, time.monotonic()
        if self._looks is None or not self._looks.is_alive():
            self._looks = threading.Thread(target=self._look, name="outage", daemon=True)
            self._looks.start()
        try:
            yield
        finally:
            self._calls.pop(key, None)
        self.back(name)

    def _look(self) -> None:
        while True:
            time.sleep(LOOK)
            for name, begun in list(self._calls.values()):
                if time.monotonic() - begun > SLOW:
                    self.away(name, "it does not answer", begun)


OUTAGE = Outage()
