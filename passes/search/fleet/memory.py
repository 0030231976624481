"""The memory of a worker, and how many more fit into the machine or its container."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.model.memory import RESERVE


def resident() -> int:
    """Bytes of memory that are private to this process."""
    import psutil

    process = psutil.Process()
    try:
        return int(process.memory_full_info().uss)
    except (psutil.AccessDenied, AttributeError, NotImplementedError):
        return int(process.memory_info().rss)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many of `wanted` workers of `each` bytes fit into `free` bytes."""

    wanted: int
    each: int
    free: int

    @property
    def count(self) -> int:
        """The number of workers to start."""
        return min(self.wanted, int(self.free * (1 - RESERVE)) // max(1, self.each))

    @property
    def message(self) -> str:
        """A sentence on how many are started, and why not more."""
        sizes = f"a worker takes {_giga(self.each)}, {_giga(self.free)} are free"
        if self.count == self.wanted:
            return f"Starting {self.count} more: {sizes}."
        begin = f"Starting only {self.count} of {self.wanted} more" if self.count else "Starting no more workers"
        return f"{begin}: {sizes}."


def _giga(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
