"""How much memory a worker takes, and how many more there is room for: in the machine, or in its container."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

RESERVE = 0.1  # of what is free, left to everything else
_GROUP = Path("/sys/fs/cgroup")


def resident() -> int:
    """Bytes that this process alone holds."""
    import psutil

    process = psutil.Process()
    try:
        return int(process.memory_full_info().uss)
    except (psutil.AccessDenied, AttributeError, NotImplementedError):
        return int(process.memory_info().rss)


def free(group: Path = _GROUP) -> int:
    """Bytes that further processes may take."""
    import psutil

    found = int(psutil.virtual_memory().available)
    with contextlib.suppress(OSError, ValueError):
        limit, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines() if " " in line)
        found = min(found, limit - used + int(cached.get("inactive_file", 0)))
    return max(0, found)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many workers of a size there is room for."""

    wanted: int
    each: int
    free: int

    @property
    def count(self) -> int:
        """How many of those that are wanted."""
        return min(self.wanted, int(self.free * (1 - RESERVE)) // max(1, self.each))

    @property
    def words(self) -> str:
        """What is started, and why no more."""
        sizes = f"a worker takes {_giga(self.each)}, {_giga(self.free)} are free"
        if self.count == self.wanted:
            return f"Starting {self.count} more: {sizes}."
        begin = f"Starting only {self.count} of {self.wanted} more" if self.count else "Starting no more workers"
        return f"{begin}: {sizes}."


def _giga(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
