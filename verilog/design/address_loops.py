"""Address sequences as nested loops, for a few counters in place of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEVELS = 6


@dataclass(frozen=True, slots=True)
class AddressLoops:
    """Addresses from `start` by loops of (count, stride), the innermost first; parameters of walk.sv."""

    start: int
    loops: tuple[tuple[int, int], ...]

    def addresses(self) -> np.ndarray:
        """The sequence of addresses."""
        addresses = np.array([self.start])
        for count, stride in reversed(self.loops):
            addresses = (addresses[:, None] + np.arange(count) * stride).reshape(-1)
        return addresses

    def parameters(self, prefix: str) -> dict[str, int]:
        """Loop counts, and the increment when a loop advances and its inner loops restart."""
        filled = (*self.loops, *((1, 0),) * (LEVELS - len(self.loops)))
        back, adds = 0, list[int]()
        for count, stride in filled:
            adds.append(stride - back if count > 1 else 0)
            back += (count - 1) * stride
        counts = {f"{prefix}_C{k}": count for k, (count, _) in enumerate(filled)}
        return {f"{prefix}_START": self.start} | counts | {f"{prefix}_D{k}": add for k, add in enumerate(adds)}


def as_loops(addresses: np.ndarray) -> AddressLoops | None:
    """At most six nested loops that give these addresses; None if there are none."""
    loops: list[tuple[int, int]] = []
    remaining = addresses
    while len(remaining) > 1:
        count = _run(remaining)
        if count < 2 or len(loops) == LEVELS:
            return None
        loops.append((count, int(remaining[1] - remaining[0])))
        remaining = remaining[::count]
    return AddressLoops(int(addresses[0]), tuple(loops))


def _run(addresses: np.ndarray) -> int:
    """The largest count of an innermost loop with which the addresses are consistent; 1 if there is none."""
    total, stride = len(addresses), addresses[1] - addresses[0]
    breaks = np.flatnonzero(np.diff(addresses) != stride)
    longest = int(breaks[0]) + 1 if len(breaks) else total
    for count in range(longest, 1, -1):
        if total % count == 0:
            groups = addresses.reshape(-1, count)
            if (groups - groups[:, :1] == stride * np.arange(count)).all():
                return count
    return 1
