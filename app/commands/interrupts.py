"""SIGTERM, sent by Slurm and Kubernetes, handled as Ctrl+C, so that running work ends in order."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

HURRY = 5.0  # seconds after which a second signal also interrupts that


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
