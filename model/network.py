"""Whether the Hugging Face hub can be reached: without a network its client retries for half a minute, this spares it.

What was found holds for some seconds, so that several look-ups in a row ask once.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

PATIENCE = 4.0  # seconds for an answer, the look-up of the name included
HOLDS = 30.0  # seconds
_LAST: dict[str, tuple[float, bool]] = {}


def reachable(endpoint: str) -> bool:
    """Whether anything answers at `endpoint`, through a proxy where one is set."""
    held = _LAST.get(endpoint)
    if held is None or time.monotonic() - held[0] > HOLDS:
        held = _LAST[endpoint] = time.monotonic(), _ask(endpoint)
    return held[1]


def _ask(endpoint: str) -> bool:
    """In a thread, because the look-up of a name knows no time limit."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(_answers(endpoint)), daemon=True, name="espalier-network")
    thread.start()
    thread.join(PATIENCE)
    return bool(found) and found[0]


def _answers(endpoint: str) -> bool:
    if not endpoint.startswith(("https://", "http://")):
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=PATIENCE):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


@contextmanager
def offline_if_unreachable() -> Generator[bool]:
    """Let the hub's clients look into their caches alone where the hub does not answer; gives whether it does."""
    from huggingface_hub import constants

    switches: list[Any] = [constants, *([sys.modules["datasets"].config] if "datasets" in sys.modules else [])]
    before = [s.HF_HUB_OFFLINE for s in switches]
    online = not any(before) and reachable(constants.ENDPOINT)
    try:
        for switch in switches:
            switch.HF_HUB_OFFLINE = not online
        yield online
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.HF_HUB_OFFLINE = value
