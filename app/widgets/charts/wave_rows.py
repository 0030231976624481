"""Handshakes per pixel: the share of cycles in each state below each column of pixels. Free of Qt.

The run lengths of a stream are summed once per state; a pixel then costs two look-ups, whatever its span of cycles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.translation import translated
from espalier.verilog.proof.waves import Handshakes, Lane, State

# In the order of State.
STATES = translated(("idle", "starved", "stalled", "moves"))
CACHE_SIZE = 128  # streams whose sums are cached
GRIDS = (1 << 13, 1 << 17)  # points of the tables of sums, for views with more runs than could be searched
MIN_CYCLES = 8.0  # of a view
Shares = NDArray[np.float64]
Sums = NDArray[np.float64]  # [points, states]: cycles in each state before a point


@dataclass(frozen=True, slots=True, eq=False)
class LaneSums:
    """The starts of the runs of a stream and the end of the last, the sums there, and tables of evenly spaced sums."""

    starts: NDArray[np.int64]
    sums: Sums
    grids: tuple[Sums, ...]

    def at(self, edges: NDArray[np.float64]) -> Sums:
        """The sums at any cycles, interpolated within runs."""
        starts, last = self.starts, len(self.starts) - 1
        place = np.clip(np.searchsorted(starts, edges, "right") - 1, 0, max(last - 1, 0))
        after = np.minimum(place + 1, last)
        part = np.clip((edges - starts[place]) / np.maximum(starts[after] - starts[place], 1), 0.0, 1.0)[:, None]
        return self.sums[place] * (1.0 - part) + self.sums[after] * part


@dataclass(frozen=True, slots=True)
class Span:
    """A range of cycles, [begin, end); may begin within a cycle."""

    begin: float
    end: float

    @property
    def length(self) -> float:
        """The number of cycles."""
        return self.end - self.begin

    def zoomed(self, factor: float, at: float, whole: Span) -> Span:
        """Scale the length by `factor` around the cycle `at`, within `whole`."""
        length = min(max(self.length * factor, min(MIN_CYCLES, whole.length)), whole.length)
        part = (at - self.begin) / self.length if self.length else 0.5
        return Span(at - part * length, at - part * length + length).within(whole)

    def moved(self, by: float, whole: Span) -> Span:
        """Shift by `by` cycles, within `whole`."""
        return Span(self.begin + by, self.end + by).within(whole)

    def within(self, whole: Span) -> Span:
        """Shift into `whole`, and shorten if it is longer."""
        begin = min(max(self.begin, whole.begin), max(whole.end - self.length, whole.begin))
        return Span(begin, min(begin + self.length, whole.end))


class Rows:
    """The streams of a simulation, with their sums; `order`: the lane of each row."""

    def __init__(self, handshakes: Handshakes) -> None:
        self.handshakes = handshakes
        self.whole = Span(float(handshakes.first), float(max(handshakes.cycles, handshakes.first + 1)))
        self.order: tuple[int, ...] = tuple(range(len(handshakes.lanes)))
        self._sums: OrderedDict[int, LaneSums] = OrderedDict()
        self.shares: Shares = np.array([self._state_shares(lane) for lane in handshakes.lanes]).reshape(-1, len(STATES))

    def _state_shares(self, lane: Lane) -> Shares:
        counts = lane.counts(self.handshakes.first, int(self.whole.end))
        return counts / max(float(counts.sum()), 1.0)

    def sort(self, state: int | None) -> None:
        """Sort by the share of a state, largest first; None: in the order of the data flow."""
        plain = range(len(self.handshakes.lanes))
        self.order = tuple(plain if state is None else sorted(plain, key=lambda k: -self.shares[k, state]))

    def lane(self, row: int) -> Lane:
        """The stream of a row."""
        return self.handshakes.lanes[self.order[row]]

    def share(self, row: int, state: int) -> float:
        """The share of all cycles in which the stream of a row is in a state."""
        return float(self.shares[self.order[row], state])

    def state(self, row: int, cycle: int) -> State | None:
        """The state of the stream of a row in a cycle; None outside the recording."""
        lane = self.lane(row)
        at = int(np.searchsorted(lane.starts, cycle, "right")) - 1
        return State(int(lane.states[at])) if at >= 0 and cycle < self.whole.end else None

    def next_change(self, row: int, cycle: int, back: bool) -> int:
        """The next cycle, or the previous one if `back`, in which the state of a row changes."""
        starts = self.lane(row).starts
        at = int(np.searchsorted(starts, cycle, "left" if back else "right")) - (1 if back else 0)
        inside = 0 <= at < len(starts)
        return int(starts[at]) if inside else int(self.whole.begin if back else self.whole.end - 1)

    def columns(self, row: int, span: Span, pixels: int) -> Shares:
        """[pixels, states]: the share of each state in the cycles below each pixel."""
        edges = np.linspace(span.begin, span.end, pixels + 1)
        summed = self._summed(self.order[row])
        if len(summed.starts) < 2:
            return np.zeros((pixels, len(STATES)))
        grid = next((g for g in summed.grids if 4 * self.whole.length / (len(g) - 1) <= span.length / pixels), None)
        sums = summed.at(edges) if grid is None else self._interpolated(grid, edges)
        return np.diff(sums, axis=0) / max(span.length / pixels, 1e-9)

    def _interpolated(self, grid: Sums, edges: NDArray[np.float64]) -> Sums:
        """The sums at any cycles, interpolated in a table of evenly spaced ones."""
        last = len(grid) - 1
        spot = np.clip((edges - self.whole.begin) * (last / self.whole.length), 0.0, last)
        place = np.minimum(spot.astype(np.int64), last - 1)
        part = (spot - place)[:, None]
        return grid[place] * (1.0 - part) + grid[place + 1] * part

    def _summed(self, lane: int) -> LaneSums:
        """The sums of a stream, cached."""
        sums = self._sums.get(lane)
        if sums is None:
            sums = self._sums[lane] = _sums(self.handshakes.lanes[lane], self.whole)
            while len(self._sums) > CACHE_SIZE:
                self._sums.popitem(last=False)
        self._sums.move_to_end(lane)
        return sums

    def prepare(self, lanes: Iterable[int], stop: Callable[[], bool] = lambda: False) -> None:
        """Compute the sums of streams in advance, until `stop()`."""
        for lane in lanes:
            if stop():
                return
            self._summed(lane)


def _sums(lane: Lane, whole: Span) -> LaneSums:
    end = int(whole.end)
    runs = int(np.searchsorted(lane.starts, end, "left"))
    starts = np.append(lane.starts[:runs], end).astype(np.int64)
    lengths = np.diff(starts)
    sums = np.zeros((len(starts), len(STATES)))
    for state in range(len(STATES)):
        np.cumsum(np.where(lane.states[:runs] == state, lengths, 0), out=sums[1:, state])
    plain = LaneSums(starts, sums, ())
    grids = (plain.at(np.linspace(whole.begin, whole.end, n + 1)) for n in GRIDS if runs > n // 4)
    return LaneSums(starts, sums, tuple(grids))
