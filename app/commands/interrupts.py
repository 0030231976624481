"""Ctrl+C, and SIGTERM, sent by Slurm and Kubernetes, handled as Ctrl+C, so that running work ends in order."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any


class ToldInterrupt(KeyboardInterrupt):
    """Ctrl+C of a command that has said what it leaves."""


@dataclass(slots=True)
class _Lost:
    """Whether Ctrl+C was pressed, and nothing has raised it since."""

    pressed: bool = False


_LOST = _Lost()
HURRY = 5.0  # seconds after which a second signal also interrupts that


def interrupt(number: int, frame: Any) -> None:
    """Handler of SIGINT that raises KeyboardInterrupt."""
    _LOST.pressed = True
    raise KeyboardInterrupt


def raise_lost() -> None:
    """Raise KeyboardInterrupt again if Ctrl+C was pressed: libraries in C discard one that is raised in their calls."""
    if _LOST.pressed:
        _LOST.pressed = False
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Context in which both signals raise KeyboardInterrupt, once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    last = -HURRY

    def stop(number: int, frame: Any) -> None:
        nonlocal last
        since, last = time.monotonic() - last, time.monotonic()
        if since >= HURRY:
            raise KeyboardInterrupt

    before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
