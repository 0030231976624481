"""The event-driven cycle simulation against a reference that evaluates every unit in every cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.timing import cycles
from espalier.verilog.timing.cycles import UnitNetwork
from tests.verilog import reference_cycles


class Net:
    """A random network, in the order of the data."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.frames = int(self.rng.integers(1, 4))
        self.units: list[dict[str, Any]] = []
        self.beats: list[int] = []

    def channel(self, beats: int) -> int:
        self.beats.append(beats * self.frames)
        return len(self.beats) - 1

    def marks(self, steps: int, beats: int) -> np.ndarray:
        found = np.zeros(steps, bool)
        found[self.rng.permutation(steps)[:beats]] = True
        return found

    def engine(self, ins: list[tuple[int, int]], outs: list[tuple[int, int]]) -> None:
        """(channel, beats a frame) of each side; long pauses among the steps, now and then."""
        most = max(n for _, n in (*ins, *outs))
        steps = most + int(self.rng.choice([0, 1, 5, 80]))
        self.units.append({
            "kind": "engine", "depth": int(self.rng.integers(1, 7)), "steps": steps, "frames": self.frames,
            "ins": [c for c, _ in ins], "outs": [c for c, _ in outs],
            "takes": [self.marks(steps, n) for _, n in ins], "gives": [self.marks(steps, n) for _, n in outs],
        })  # fmt: skip

    def fifo(self, came: int, beats: int, depth: int, primed: int = 0) -> int:
        gone = self.channel(beats)
        self.units.append({"kind": "fifo", "ins": [came], "outs": [gone], "depth": depth, "primed": primed})
        return gone

    def stage(self, came: int, beats: int) -> tuple[int, int]:
        """An engine, perhaps with a FIFO behind it."""
        gives = int(self.rng.integers(1, 9))
        gone = self.channel(gives)
        self.engine([(came, beats)], [(gone, gives)])
        if self.rng.random() < 0.5:
            gone = self.fifo(gone, gives, int(self.rng.integers(1, 12)))
        return gone, gives

    def split(self, came: int, beats: int) -> tuple[int, int]:
        """A fork whose branches meet again, one of them with work on it."""
        a, b = self.channel(beats), self.channel(beats)
        self.units.append({"kind": "fork", "depth": 1, "ins": [came], "outs": [a, b], "steps": 1, "frames": 1})
        worked, many = self.stage(a, beats)
        room = self.fifo(b, beats, int(self.rng.integers(1, 20)))
        gone, gives = self.channel(3), 3
        self.engine([(worked, many), (room, beats)], [(gone, gives)])
        return gone, gives

    def doubled(self, came: int, beats: int) -> tuple[int, int]:
        """Two engines with places between them that the second gives back to the first."""
        full, free, gone = self.channel(beats), self.channel(beats), self.channel(beats)
        places = int(self.rng.integers(2, 5))
        back, ahead = self.channel(beats), self.channel(beats)
        self.engine([(came, beats), (back, beats)], [(full, beats)])
        self.units.append({"kind": "fifo", "ins": [full], "outs": [ahead], "depth": places})
        self.engine([(ahead, beats)], [(gone, beats), (free, beats)])
        self.units.append({"kind": "fifo", "ins": [free], "outs": [back], "depth": places, "primed": places})
        return gone, beats


def network(seed: int) -> UnitNetwork:
    net = Net(seed)
    beats = int(net.rng.integers(1, 9))
    first = at = net.channel(beats)
    for _ in range(int(net.rng.integers(1, 6))):
        at, beats = (net.stage, net.stage, net.split, net.doubled)[int(net.rng.integers(4))](at, beats)
    spacing = int(net.rng.choice([0, 0, 7, 150]))
    return UnitNetwork(net.units, net.beats, [first], [net.beats[first] // net.frames], [at], spacing)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_same_cycles_as_when_everything_is_stepped(seed: int) -> None:
    work = network(seed)
    fast, plain = cycles.run(work), reference_cycles.run(work)
    assert fast.state == plain.state
    for mine, other in zip(fast.stamps, plain.stamps, strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(fast.peaks, plain.peaks)


def test_some_of_them_get_stuck_and_some_do_not() -> None:
    states = [cycles.run(network(seed)).state for seed in range(40)]
    assert {cycles.DONE, cycles.STUCK} == set(states)


@pytest.mark.parametrize("steps", [10, 1_000_000])
def test_a_long_silence_costs_nothing(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is that of the beats, however many steps lie between them."""
    quiet, last = np.zeros(steps, bool), np.zeros(steps, bool)
    quiet[0] = last[-1] = True
    engine = {"kind": "engine", "depth": 3, "steps": steps, "frames": 2, "ins": [0], "outs": [1], "takes": [quiet],
              "gives": [last]}  # fmt: skip
    seen: list[int] = []
    plain = getattr(cycles._engine, "py_func", cycles._engine)
    for name in ("_advance", "_set_valid", "_set_ready", "_enabled", "_inputs_valid", "_cycles_to_output", "_fork",
                 "_set_input_valid", "_transfer",
                 "_next", "_wake", "_cycle"):  # fmt: skip
        made = getattr(cycles, name)
        monkeypatch.setattr(cycles, name, getattr(made, "py_func", made))
    monkeypatch.setattr(cycles, "_engine", lambda u, cycle, *rest: (seen.append(cycle), plain(u, cycle, *rest))[1])
    monkeypatch.setattr(cycles, "_run", getattr(cycles._run, "py_func", cycles._run))
    found = cycles.run(UnitNetwork([engine], [2, 2], [0], [1], [1], 0))
    np.testing.assert_array_equal(found.stamps[1], [steps + 2, 2 * steps + 2])
    assert len(seen) < 30  # engines looked at
