"""Handshakes as they are drawn: for each column of pixels, the share of its cycles in each state. No Qt.

Each stream's runs are summed up once, by state; any span of cycles is then two look-ups a pixel, whatever its length.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.verilog.proof.waves import Handshakes, Lane, State

# In the order of the state's number.
STATES = ("idle", "starved", "stalled", "moves")
KEPT = 128  # streams whose sums are held
GRIDS = (1 << 13, 1 << 17)  # places at which sums are tabled, for views of more cycles than runs could be looked up
LEAST = 8.0  # cycles that a view shows at least
Shares = NDArray[np.float64]
Sums = NDArray[np.float64]  # cycles in each state up to a place


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """Where the runs of a stream begin and the last ends, the sums there, and at even places over the whole."""

    starts: NDArray[np.int64]
    sums: Sums
    grids: tuple[Sums, ...]

    def at(self, edges: NDArray[np.float64]) -> Sums:
        """The sums at any places."""
        starts, last = self.starts, len(self.starts) - 1
        place = np.clip(np.searchsorted(starts, edges, "right") - 1, 0, max(last - 1, 0))
        after = np.minimum(place + 1, last)
        part = np.clip((edges - starts[place]) / np.maximum(starts[after] - starts[place], 1), 0.0, 1.0)[:, None]
        return self.sums[place] * (1.0 - part) + self.sums[after] * part


@dataclass(frozen=True, slots=True)
class Span:
    """Cycles that are seen, from `begin` to before `end`; fractions are parts of a cycle."""

    begin: float
    end: float

    @property
    def length(self) -> float:
        """How many."""
        return self.end - self.begin

    def zoomed(self, factor: float, at: float, whole: Span) -> Span:
        """So many times the cycles, the one at `at` staying where it is, within `whole`."""
        length = min(max(self.length * factor, min(LEAST, whole.length)), whole.length)
        part = (at - self.begin) / self.length if self.length else 0.5
        return Span(at - part * length, at - part * length + length).within(whole)

    def moved(self, by: float, whole: Span) -> Span:
        """So many cycles on, within `whole`."""
        return Span(self.begin + by, self.end + by).within(whole)

    def within(self, whole: Span) -> Span:
        """As long as it is where `whole` has room for it."""
        begin = min(max(self.begin, whole.begin), max(whole.end - self.length, whole.begin))
        return Span(begin, min(begin + self.length, whole.end))


class Rows:
    """The streams of a simulation, with their sums; `order` says which stands where."""

    def __init__(self, found: Handshakes) -> None:
        self.found = found
        self.whole = Span(float(found.first), float(max(found.cycles, found.first + 1)))
        self.order: tuple[int, ...] = tuple(range(len(found.lanes)))
        self._sums: OrderedDict[int, Summed] = OrderedDict()
        self.shares: Shares = np.array([self._whole(lane) for lane in found.lanes]).reshape(-1, len(STATES))

    def _whole(self, lane: Lane) -> Shares:
        counts = lane.counts(self.found.first, int(self.whole.end))
        return counts / max(float(counts.sum()), 1.0)

    def sort(self, state: int | None) -> None:
        """By the share of a state, largest first; None: as the data flows."""
        plain = range(len(self.found.lanes))
        self.order = tuple(plain if state is None else sorted(plain, key=lambda k: -self.shares[k, state]))

    def lane(self, row: int) -> Lane:
        """The stream in a row."""
        return self.found.lanes[self.order[row]]

    def share(self, row: int, state: int) -> float:
        """The share of all cycles that the stream in a row is in a state."""
        return float(self.shares[self.order[row], state])

    def state(self, row: int, cycle: int) -> State | None:
        """What the stream in a row does in a cycle; None outside of what was recorded."""
        lane = self.lane(row)
        at = int(np.searchsorted(lane.starts, cycle, "right")) - 1
        return State(int(lane.states[at])) if at >= 0 and cycle < self.whole.end else None

    def next_change(self, row: int, cycle: int, back: bool) -> int:
        """The cycle in which the stream in a row next does something else."""
        starts = self.lane(row).starts
        at = int(np.searchsorted(starts, cycle, "left" if back else "right")) - (1 if back else 0)
        inside = 0 <= at < len(starts)
        return int(starts[at]) if inside else int(self.whole.begin if back else self.whole.end - 1)

    def columns(self, row: int, span: Span, pixels: int) -> Shares:
        """[pixels, states]: the shares of the cycles below each pixel."""
        edges = np.linspace(span.begin, span.end, pixels + 1)
        summed = self._summed(self.order[row])
        if len(summed.starts) < 2:
            return np.zeros((pixels, len(STATES)))
        held = next((g for g in summed.grids if 4 * self.whole.length / (len(g) - 1) <= span.length / pixels), None)
        sums = summed.at(edges) if held is None else self._tabled(held, edges)
        return np.diff(sums, axis=0) / max(span.length / pixels, 1e-9)

    def _tabled(self, grid: Sums, edges: NDArray[np.float64]) -> Sums:
        """The sums at any places, as a table of even ones has them."""
        last = len(grid) - 1
        spot = np.clip((edges - self.whole.begin) * (last / self.whole.length), 0.0, last)
        place = np.minimum(spot.astype(np.int64), last - 1)
        part = (spot - place)[:, None]
        return grid[place] * (1.0 - part) + grid[place + 1] * part

    def _summed(self, lane: int) -> Summed:
        """A stream's sums, made when they are first wanted."""
        held = self._sums.get(lane)
        if held is None:
            held = self._sums[lane] = _sums(self.found.lanes[lane], self.whole)
            while len(self._sums) > KEPT:
                self._sums.popitem(last=False)
        self._sums.move_to_end(lane)
        return held

    def prepare(self, lanes: Iterable[int], stop: Callable[[], bool] = lambda: False) -> None:
        """Sum streams up, so that drawing finds it done."""
        for lane in lanes:
            if stop():
                return
            self._summed(lane)


def _sums(lane: Lane, whole: Span) -> Summed:
    end = int(whole.end)
    known = int(np.searchsorted(lane.starts, end, "left"))
    starts = np.append(lane.starts[:known], end).astype(np.int64)
    lengths = np.diff(starts)
    sums = np.zeros((len(starts), len(STATES)))
    for state in range(len(STATES)):
        np.cumsum(np.where(lane.states[:known] == state, lengths, 0), out=sums[1:, state])
    plain = Summed(starts, sums, ())
    grids = (plain.at(np.linspace(whole.begin, whole.end, n + 1)) for n in GRIDS if known > n // 4)
    return Summed(starts, sums, tuple(grids))
