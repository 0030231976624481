"""Handshakes as they are drawn: the shares below each pixel are those of the cycles, at any zoom."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.app.widgets.charts.wave_rows import STATES, Rows, Span
from espalier.verilog.proof.waves import Handshakes, Lane, State


def lane(name: str, starts: list[int] | np.ndarray, states: list[int] | np.ndarray) -> Lane:
    return Lane(name, name, 0, name, "", np.asarray(starts, np.int64), np.asarray(states, np.uint8))


def some(seed: int, cycles: int, runs: int) -> tuple[Lane, np.ndarray]:
    rng = np.random.default_rng(seed)
    starts = np.unique(np.append(rng.integers(0, cycles, runs), 0))
    made = lane(f"s{seed}", starts, rng.integers(0, 4, len(starts)))
    return made, np.repeat(made.states, np.diff(np.append(starts, cycles)))


@pytest.mark.parametrize(("begin", "end", "pixels"), [(0, 600, 600), (10, 20, 40), (0, 600, 7), (123.5, 131.25, 31)])
def test_shares_are_those_of_the_cycles(begin: float, end: float, pixels: int) -> None:
    made, every = some(1, 600, 200)
    rows = Rows(Handshakes(0, 600, (made,)))
    found = rows.columns(0, Span(begin, end), pixels)
    fine = 64  # parts of a cycle
    each = np.repeat(every, fine)
    edges = np.linspace(begin, end, pixels + 1) * fine
    for k in range(pixels):
        part = each[round(edges[k]) : round(edges[k + 1])]
        want = np.bincount(part, minlength=len(STATES)) / max(len(part), 1)
        assert np.abs(found[k] - want).max() < 3 / max(len(part), 1)


def test_a_million_cycles_are_tabled() -> None:
    made, every = some(2, 1_000_000, 200_000)
    rows = Rows(Handshakes(0, 1_000_000, (made,)))
    assert len(rows._summed(0).grids) == 2
    want = np.stack([(every.reshape(500, -1) == s).mean(1) for s in range(4)], 1)
    assert np.abs(rows.columns(0, rows.whole, 500) - want).max() < 0.03
    near = rows.columns(0, Span(5000, 5200), 200)
    assert (near.argmax(1) == every[5000:5200]).all(), "one by one where there is room"


def test_what_was_not_recorded_is_empty_and_rows_are_sorted() -> None:
    moves, waits = lane("a", [3, 5], [State.TRANSFER, State.IDLE]), lane("b", [3], [State.STALLED])
    rows = Rows(Handshakes(3, 11, (moves, waits, lane("c", [], []))))
    assert rows.whole == Span(3, 11) and rows.share(0, State.TRANSFER) == 0.25
    rows.sort(State.STALLED)
    assert [rows.lane(k).name for k in range(3)] == ["b", "a", "c"] and rows.share(0, State.STALLED) == 1
    assert not rows.columns(2, rows.whole, 5).any()
    rows.sort(None)
    assert rows.state(0, 4) is State.TRANSFER and rows.state(0, 2) is None and rows.state(0, 11) is None
    assert rows.next_change(0, 3, back=False) == 5 and rows.next_change(0, 9, back=True) == 5
    assert rows.next_change(0, 5, back=False) == 10


def test_zooming_keeps_the_cycle_under_the_pointer() -> None:
    whole = Span(0, 1000)
    near = whole.zoomed(0.1, 300, whole)
    assert near.length == 100 and (300 - near.begin) / near.length == pytest.approx(0.3)
    assert near.zoomed(100, 300, whole) == whole and near.zoomed(1e-9, 300, whole).length == 8
    assert near.moved(-1e6, whole).begin == 0 and near.moved(1e6, whole).end == 1000
