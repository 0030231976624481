"""A console's process, driven as the window drives it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from espalier.app.features.console.messages import Ended, Interrupt, Output, Ready, Run, Update
from espalier.app.features.console.process import ConsoleProcess, Died

PATIENCE = 60.0  # seconds


class Driver:
    """Sends texts and collects what comes."""

    def __init__(self) -> None:
        self.process = ConsoleProcess(lambda: None)
        self.number = itertools.count(1)
        self.running = 0
        self.messages: list[Any] = []

    def until(self, kind: type, seconds: float = PATIENCE) -> Any:
        """The next message of a kind; everything before it is collected."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for message in self.process.take(1 << 20):
                self.messages.append(message)
                if isinstance(message, kind):
                    return message
                if isinstance(message, Died):
                    raise AssertionError(f"The process died: {message.reason}")
            time.sleep(0.002)
        raise AssertionError(f"no {kind.__name__} in {seconds} s")

    def begin(self, text: str, update: Update | None = None, selection: tuple[str, ...] = ()) -> None:
        """Send a text."""
        self.messages.clear()
        self.running = next(self.number)
        self.process.post(Run(self.running, text, update, selection))

    def run(self, text: str) -> tuple[str, str]:
        """Run a text to its end: (output, errors)."""
        self.begin(text)
        assert self.until(Ended).number == self.running
        return self.text("out"), self.text("error")

    def interrupt(self) -> None:
        """Interrupt the running text."""
        self.process.post(Interrupt(self.running))

    def text(self, kind: str) -> str:
        """All output of a kind since the last text."""
        return "".join(m.text for m in self.messages if isinstance(m, Output) and m.kind == kind)


@pytest.fixture
def console() -> Iterator[Driver]:
    """A process that is ready."""
    driver = Driver()
    driver.until(Ready)
    yield driver
    driver.process.stop()
