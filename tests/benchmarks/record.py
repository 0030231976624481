"""How every benchmark reports: one JSON object on stdout, and a copy in results/ when asked to keep it."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Cores and architecture, without a host name."""
    return f"{os.cpu_count()}-core {platform.machine()} {platform.system()}, Python {platform.python_version()}"


def report(name: str, figures: dict[str, Any]) -> None:
    """Print the figures; `--keep` also writes them to results/NAME.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    keep = parser.parse_known_args()[0].keep
    data = {"benchmark": name, "date": datetime.date.today().isoformat(), "machine": machine(), **figures}
    text = json.dumps(data, indent=1)
    print(text)
    if keep:
        (RESULTS / f"{name}.json").write_text(text + "\n")


def median_of(function: Callable[[], Any], times: int) -> float:
    """Median seconds of `times` calls."""
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def ratio(mine: float, reference: float, target: float) -> dict[str, Any]:
    """Seconds of both, their ratio and the target of that ratio."""
    return {
        "seconds": round(mine, 4),
        "reference": round(reference, 4),
        "ratio": round(mine / reference, 3),
        "target": target,
    }
