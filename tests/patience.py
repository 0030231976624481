"""How long tests wait for what must come: long, since a wait ends as soon as its condition holds, and the slowest
machine is ten times slower than the fastest. No test may fail by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

PATIENCE = 300.0  # seconds
ROOM = 2.0  # what a budget of time leaves beyond itself
REFERENCE = 0.010  # seconds that 200 000 rounds of a loop take
MILLISECONDS = int(PATIENCE * 1000)
Found = TypeVar("Found")


def until(what: Callable[[], Found]) -> Found:
    """What a condition gives, once it does; for waits on threads and processes, without an event loop."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        if time.monotonic() > end:
            raise AssertionError(f"it did not come to that within {PATIENCE:g} s")
        time.sleep(0.01)
    return found


class PatientBot(QtBot):
    """pytest-qt's robot whose waits have time; those that expect nothing (`raising=False`) keep theirs."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = 0) -> None:
        """Wait until a condition holds."""
        __tracebackhide__ = True
        super().waitUntil(callback, timeout=max(timeout, MILLISECONDS))

    def waitSignal(self, signal: Any, *, timeout: int = 5000, raising: bool | None = None, **more: Any) -> Any:
        """Wait for a signal."""
        return super().waitSignal(signal, timeout=_patient(timeout, raising), raising=raising, **more)

    def waitSignals(self, signals: Any, *, timeout: int = 5000, raising: bool | None = None, **more: Any) -> Any:
        """Wait for all of some signals."""
        return super().waitSignals(signals, timeout=_patient(timeout, raising), raising=raising, **more)

    def waitCallback(self, *, timeout: int = 5000, raising: bool | None = None) -> Any:
        """Wait for a call."""
        return super().waitCallback(timeout=_patient(timeout, raising), raising=raising)

    def waitActive(self, widget: QWidget, *, timeout: int = 0) -> Any:
        """Wait until a window is active."""
        return super().waitActive(widget, timeout=max(timeout, MILLISECONDS))

    def waitExposed(self, widget: QWidget, *, timeout: int = 0) -> Any:
        """Wait until a window is on the screen."""
        return super().waitExposed(widget, timeout=max(timeout, MILLISECONDS))

    def focus(self, widget: QWidget) -> None:
        """Give a widget the keys: its window becomes active, whatever other windows there are."""
        window = widget.window()
        window.activateWindow()
        self.waitUntil(window.isActiveWindow)
        widget.setFocus()
        self.waitUntil(lambda: widget.hasFocus())


def _patient(timeout: int, raising: bool | None) -> int:
    return timeout if raising is False else max(timeout, MILLISECONDS)


def budget(seconds: float) -> float:
    """Processor time that may be taken here for what takes `seconds` on a quiet machine of 2024, with room."""
    return seconds * max(1.0, min(_rounds(time.process_time)) / REFERENCE) * ROOM


def wall(seconds: float) -> float:
    """Clock that may pass here, as busy as the machine is, for what takes `seconds` on a quiet one, with room."""
    return seconds * max(1.0, max(_rounds(time.perf_counter)) / REFERENCE) * ROOM


def _rounds(clock: Callable[[], float]) -> list[float]:
    """What the loop of `REFERENCE` takes by a clock, five times."""
    taken: list[float] = []
    for _ in range(5):
        begun = clock()
        sum(i * i for i in range(200_000))
        taken.append(clock() - begun)
    return taken
