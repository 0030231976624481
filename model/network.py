"""Checks whether the Hugging Face hub is reachable: without a network its client retries for half a minute.

Results are cached for some seconds, so that successive look-ups share a request.
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

TIMEOUT = 4.0  # seconds for a response, including the look-up of the name
CACHE_SECONDS = 30.0
_LAST: dict[str, tuple[float, bool]] = {}


def reachable(endpoint: str) -> bool:
    """Whether a server responds at `endpoint`, through a proxy if one is set."""
    cached = _LAST.get(endpoint)
    if cached is None or time.monotonic() - cached[0] > CACHE_SECONDS:
        cached = _LAST[endpoint] = time.monotonic(), _request(endpoint)
    return cached[1]


def _request(endpoint: str) -> bool:
    """Request the endpoint in a thread, as the look-up of a name has no time limit."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(_responds(endpoint)), daemon=True, name="espalier-network")
    thread.start()
    thread.join(TIMEOUT)
    return bool(results) and results[0]


def _responds(endpoint: str) -> bool:
    if not endpoint.startswith(("https://", "http://")):
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=TIMEOUT):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


@contextmanager
def offline_if_unreachable() -> Generator[bool]:
    """Switch the hub's clients to their caches if the hub does not respond; yields whether it responds."""
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
