"""Tells once that a storage went away, and once that it is back: whoever waits minutes must know what for.

A call that nobody answers hangs within a library's C code, so a thread looks at how long calls have been under way.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

STORAGE = "The storage"
SLOW = 3.0  # seconds after which a call counts as not answered
LOOK = 0.5  # seconds between two looks
FIRST_PAUSE, LAST_PAUSE = 0.25, 4.0  # seconds between two tries
LIMIT = 300.0  # seconds that a storage may be away
PARTING = 5.0  # seconds of them that who is about to end waits


class Outage:
    """Of this process' storage: since when it is away, when it came back last, and who is told."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.returned = 0.0
        self.limit = LIMIT
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

    @contextlib.contextmanager
    def hurried(self) -> Generator[None]:
        """Nobody waits long meanwhile: this process is about to end."""
        before, self.limit = self.limit, PARTING
        try:
            yield
        finally:
            self.limit = before

    def patiently(self, name: str, call: Callable[[], Any], is_away: Callable[[Exception], str]) -> Any:
        """What `call` gives, tried again while its storage is away: `is_away` says why, or nothing of other errors."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                found = call()
            # Storages raise what their drivers raise: what says that one is away decides, all else goes on its way.
            except Exception as error:
                why = is_away(error)
                left = self.limit - (time.monotonic() - begun)
                if not why or left < 0:
                    raise
                self.away(name, why)
                time.sleep(min(pause, left + FIRST_PAUSE))
                pause = min(2 * pause, LAST_PAUSE)
            else:
                if pause > FIRST_PAUSE:
                    self.back(name)
                return found

    def away(self, name: str, why: str, since: float | None = None) -> None:
        """A storage does not answer; `since` by the monotonic clock."""
        with self._lock:
            if self.since is not None:
                return
            self.since = time.monotonic() if since is None else since
            begun = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - self.since)))
        self._tell(f"{name} does not respond since {begun}: {why.rstrip('. ')}. Trying again.")

    def back(self, name: str) -> None:
        """It answers; once, where it did not before."""
        with self._lock:
            since, self.since = self.since, None
            self.returned = self.returned if since is None else time.monotonic()
        if since is not None:
            self._tell(f"{name} responds again after {time.monotonic() - since:.0f} s.")

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
