"""Addresses as nested loops: what a few counters can walk through instead of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEVELS = 6


@dataclass(frozen=True, slots=True)
class Walk:
    """Addresses from `start` through loops of (count, stride), the innermost first; the parameters of walk.sv."""

    start: int
    loops: tuple[tuple[int, int], ...]

    def addresses(self) -> np.ndarray:
        """All of them, in order."""
        found = np.array([self.start])
        for count, stride in reversed(self.loops):
            found = (found[:, None] + np.arange(count) * stride).reshape(-1)
        return found

    def parameters(self, prefix: str) -> dict[str, int]:
        """Counts, and what is added when a loop goes on while those within begin again."""
        filled = (*self.loops, *((1, 0),) * (LEVELS - len(self.loops)))
        back, adds = 0, list[int]()
        for count, stride in filled:
            adds.append(stride - back if count > 1 else 0)
            back += (count - 1) * stride
        counts = {f"{prefix}_C{k}": count for k, (count, _) in enumerate(filled)}
        return {f"{prefix}_START": self.start} | counts | {f"{prefix}_D{k}": add for k, add in enumerate(adds)}


def walk(addresses: np.ndarray) -> Walk | None:
    """The loops that give these addresses; None where there are no six that do."""
    loops: list[tuple[int, int]] = []
    rest = addresses
    while len(rest) > 1:
        count = _run(rest)
        if count < 2 or len(loops) == LEVELS:
            return None
        loops.append((count, int(rest[1] - rest[0])))
        rest = rest[::count]
    return Walk(int(addresses[0]), tuple(loops))


def _run(addresses: np.ndarray) -> int:
    """The largest count of a loop that all of them begin with."""
    total, stride = len(addresses), addresses[1] - addresses[0]
    breaks = np.flatnonzero(np.diff(addresses) != stride)
    longest = int(breaks[0]) + 1 if len(breaks) else total
    for count in range(longest, 1, -1):
        if total % count == 0:
            groups = addresses.reshape(-1, count)
            if (groups - groups[:, :1] == stride * np.arange(count)).all():
                return count
    return 1
