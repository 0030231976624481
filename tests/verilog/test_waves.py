"""The record of handshakes: what it says of every cycle agrees with the beats that were logged, and with the pauses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.errors import SimulateError
from espalier.verilog.design.netlist import Design
from espalier.verilog.proof.simulate import Simulated, build, run
from espalier.verilog.proof.waves import HEAD, RUNS, Handshakes, Lane, State, handshakes, logged, save
from tests.verilog.checks import needs_icarus, random_codes
from tests.verilog.test_linear import layer
from tests.verilog.test_schedule import chain


def two_layers() -> Design:
    return chain(layer("a", (8, 2), (8, 1)), layer("b", (8, 1), (4, 1)))


def lane(name: str, starts: list[int], states: list[State]) -> Lane:
    return Lane(name, "", 0, "n", "r", np.array(starts, np.int64), np.array(states, np.uint8))


def cycles_of(one: Lane, state: State, end: int) -> np.ndarray:
    ends = np.append(one.starts[1:], end)
    return np.array(
        [c for a, b, s in zip(one.starts, ends, one.states, strict=True) if s == state for c in range(a, b)]
    )


def simulated(folder: Path, stall: int, trace: str = "") -> tuple[Design, Simulated]:
    design = two_layers()
    rng = np.random.default_rng(0)
    inputs = tuple(random_codes(rng, b.stream, 3) for b in design.inputs)
    built = build(design, 3, folder / "builds", "icarus", trace)  # type: ignore[arg-type]
    return design, run(design, built, inputs, stall, record=folder / "waves")


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("stall", [0, 3])
def test_every_transfer_is_a_beat(tmp_path: Path, stall: int) -> None:
    design, done = simulated(tmp_path, stall)
    found = handshakes(tmp_path / "waves")
    assert found.cycles == done.total + 1
    for wire, one in zip(design.all_wires(), found.lanes, strict=True):
        assert one.name == design.label(wire)
        np.testing.assert_array_equal(cycles_of(one, State.TRANSFER, found.cycles), done.cycles[wire])
    assert all(sum(r[s.name.lower()] for s in State) == pytest.approx(1, abs=1e-3) for r in found.shares())
    starved = found.lanes[0].counts(found.first, found.cycles)[State.STARVED]
    assert stall == 0 or starved > 0  # an input that pauses keeps the first module waiting


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("kind", ["vcd", "fst"])
def test_a_trace_lies_beside(tmp_path: Path, kind: str) -> None:
    _, done = simulated(tmp_path, 0, kind)
    trace = handshakes(tmp_path / "waves").trace
    assert done.handshakes is not None and trace == done.handshakes.trace
    assert trace is not None and trace.name == f"waves.{kind}" and trace.stat().st_size > 1000
    simulated(tmp_path, 0)
    assert handshakes(tmp_path / "waves").trace is None  # that of the run before is gone


def test_a_record_is_what_was_written(tmp_path: Path) -> None:
    two = (lane("a", [4, 6, 9], [State.IDLE, State.TRANSFER, State.STALLED]), lane("b", [], []))
    save(Handshakes(4, 12, two), tmp_path)
    found = handshakes(tmp_path)
    assert (found.first, found.cycles, [x.name for x in found.lanes]) == (4, 12, ["a", "b"])
    assert found.lanes[0].counts(4, 12).tolist() == [2, 0, 3, 3]
    assert found.lanes[0].counts(7, 10).tolist() == [0, 0, 1, 2]
    assert found.lanes[1].counts(4, 12).sum() == 0
    assert found.shares()[0]["stalled"] == 0.375


def test_lines_become_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = two_layers()
    count = len(list(design.all_wires()))
    states = np.random.default_rng(1).integers(0, 4, (50, count))
    digits = -(-count // 2)
    words = (sum(int(s) << (2 * k) for k, s in enumerate(row)) for row in states)
    (tmp_path / "handshakes.log").write_text("".join(f"{9 + k:08x} {w:0{digits}x}\n" for k, w in enumerate(words)))
    monkeypatch.setattr("espalier.verilog.proof.waves.LINES", 7)  # in pieces that runs go beyond
    found = logged(design, tmp_path)
    assert found.first == 9
    for k, one in enumerate(found.lanes):
        for state in State:
            want = 9 + np.flatnonzero(states[:, k] == state)
            np.testing.assert_array_equal(cycles_of(one, state, 59), want)
    assert found.cycles == 9 + np.flatnonzero((states == State.TRANSFER).any(1))[-1] + 1


@pytest.mark.parametrize("damage", ["nothing", "head", "runs", "newer"])
def test_what_is_no_record_is_told(tmp_path: Path, damage: str) -> None:
    if damage != "nothing":
        save(Handshakes(0, 3, (lane("a", [0, 1], [State.IDLE, State.TRANSFER]),)), tmp_path)
    if damage == "head":
        (tmp_path / HEAD).write_text("{")
    elif damage == "runs":
        (tmp_path / RUNS).write_bytes(b"\0" * 5)
    elif damage == "newer":
        (tmp_path / HEAD).write_text((tmp_path / HEAD).read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(SimulateError) as caught:
        handshakes(tmp_path)
    assert caught.value.hint
