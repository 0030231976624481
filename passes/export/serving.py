"""The loop of a process that holds a runtime: a request is a line of JSON, and so is its answer. Servers run this file
by its path: it imports nothing of Espalier.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Request = dict[str, Any]
Requests = Mapping[str, Callable[[Request], dict[str, Any]]]


def serve(requests: Requests) -> None:
    """Answer what comes on standard input until it ends; what libraries print goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            answers.write(json.dumps(_answer(requests, line)) + "\n")
            answers.flush()


def _answer(requests: Requests, line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
        return requests[request["do"]](request)
    # Runtimes raise dozens of types, which the other side reports.
    except Exception as error:  # noqa: BLE001
        lines = [text.strip() for text in str(error).splitlines() if text.strip()]
        full = getattr(error, "errno", None)
        return {"error": f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__, "errno": full}
