"""The memory of the machine or its container."""

from __future__ import annotations

import contextlib
from pathlib import Path

RESERVE = 0.1  # share of the free memory that stays free
_GROUP = Path("/sys/fs/cgroup")


def free(group: Path = _GROUP) -> int:
    """Bytes of free memory, within the limit of the control group `group`."""
    import psutil

    available = int(psutil.virtual_memory().available)
    with contextlib.suppress(OSError, ValueError):
        limit, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines() if " " in line)
        available = min(available, limit - used + int(cached.get("inactive_file", 0)))
    return max(0, available)


def total(group: Path = _GROUP) -> int:
    """Bytes of memory in all, within the limit of the control group `group`."""
    import psutil

    present = int(psutil.virtual_memory().total)
    with contextlib.suppress(OSError, ValueError):
        present = min(present, int((group / "memory.max").read_text()))
    return present
