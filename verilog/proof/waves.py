"""Handshakes of a simulation: valid and ready of every stream in every cycle, run-length encoded.

`handshakes.json` holds the version, the first and last cycle and the streams; `handshakes.bin` all runs, stream by
stream, as little-endian 32-bit words of first cycle · 4 + state; a run lasts until the next one begins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.borders import read_json
from espalier.model.errors import SimulateError
from espalier.model.files import filling, make_folder
from espalier.verilog.design.netlist import Design

LOG, HEAD, RUNS = "handshakes.log", "handshakes.json", "handshakes.bin"
TRACES = ("waves.fst", "waves.vcd")
VERSION = 1
LINES = 1 << 16  # log lines read at once
NONE = 255  # no state yet


class State(IntEnum):
    """2 · valid + ready."""

    IDLE = 0
    STARVED = 1  # ready without valid
    STALLED = 2  # valid without ready
    TRANSFER = 3


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """The states of a stream. `starts` [runs]: first cycle of each run; `states` [runs]: its State.

    `source` and `reader` are instances, "" at the design's boundary; `output`: index of the source's output; `node`:
    graph node.
    """

    name: str
    source: str
    output: int
    node: str
    reader: str
    starts: np.ndarray
    states: np.ndarray

    def counts(self, begin: int, end: int) -> np.ndarray:
        """Cycles in each of the four states, from `begin` to `end` (exclusive)."""
        edges = np.clip(np.append(self.starts, max(end, begin)), begin, max(end, begin))
        return np.bincount(self.states, np.diff(edges), minlength=len(State)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Handshakes:
    """Cycles `first` … `cycles` − 1 of a simulation, up to the last transfer. `trace`: the waveform file."""

    first: int
    cycles: int
    lanes: tuple[Lane, ...]
    trace: Path | None = None

    def shares(self) -> list[dict[str, Any]]:
        """By stream, the share of all cycles in each state.

        The bottleneck is the stage whose inputs are stalled and whose outputs are not.
        """
        rows = []
        for lane in self.lanes:
            counts = lane.counts(self.first, self.cycles) / max(self.cycles - self.first, 1)
            shares = {state.name.lower(): round(float(counts[state]), 4) for state in State}
            rows.append({"stream": lane.name, "node": lane.node, "reader": lane.reader, **shares})
        return rows


def handshakes(folder: Path) -> Handshakes:
    """Load the handshakes of a recorded simulation; raises SimulateError if they are missing or damaged."""
    try:
        head = read_json(folder / HEAD)
        words = np.fromfile(folder / RUNS, "<u4")
        if head["version"] > VERSION:
            raise SimulateError(f"{folder} is of a newer version.", "Simulate again.")
        lanes, at = [], 0
        for stream in head["streams"]:
            runs = words[at : (at := at + stream.pop("runs"))]
            lanes.append(Lane(**stream, starts=(runs >> 2).astype(np.int64), states=(runs & 3).astype(np.uint8)))
        if at != len(words):
            raise ValueError("runs are missing")
        trace = next((folder / n for n in TRACES if (folder / n).exists()), None)
        return Handshakes(head["first"], head["cycles"], tuple(lanes), trace)
    except SimulateError:
        raise
    except Exception as error:
        raise SimulateError(f"There are no handshakes in {folder}.", "Simulate again.") from error


def save(record: Handshakes, folder: Path) -> Handshakes:
    """Write handshakes and waveform into `folder`, replacing older ones; raises SimulateError."""
    make_folder(folder, SimulateError)
    with filling(folder, SimulateError) as part:
        _write(record, part)
    trace = record.trace and folder / record.trace.name
    for name in TRACES:
        if trace is None or name != trace.name:
            (folder / name).unlink(missing_ok=True)
    return replace(record, trace=trace)


def _write(record: Handshakes, folder: Path) -> None:
    if record.trace is not None:
        shutil.move(record.trace, folder / record.trace.name)
    with (folder / RUNS).open("wb") as file:
        for lane in record.lanes:
            file.write(((lane.starts << 2) | lane.states).astype("<u4").tobytes())
    streams = [
        {"name": x.name, "source": x.source, "output": x.output, "node": x.node, "reader": x.reader,
         "runs": len(x.starts)}
        for x in record.lanes
    ]  # fmt: skip
    head = {"version": VERSION, "first": record.first, "cycles": record.cycles, "streams": streams}
    (folder / HEAD).write_text(json.dumps(head, indent=1) + "\n")


def logged(design: Design, folder: Path) -> Handshakes:
    """Read the handshake log that a design's bench wrote into `folder`."""
    wires = list(design.all_wires())
    starts: list[list[np.ndarray]] = [[] for _ in wires]
    states: list[list[np.ndarray]] = [[] for _ in wires]
    previous = np.full(len(wires), NONE, np.uint8)
    first, last = -1, 0
    for cycles, stream_states in _read(folder / LOG, len(wires)):
        first, last = int(cycles[0]) if first < 0 else first, int(cycles[-1]) + 1
        changed = np.concatenate([previous[None], stream_states[:-1]]) != stream_states
        for k in range(len(wires)):
            at = np.flatnonzero(changed[:, k])
            starts[k].append(cycles[at])
            states[k].append(stream_states[at, k])
        previous = stream_states[-1]
    readers = {w: name for name, ws in design.wires.items() for w in ws}
    lanes = []
    for wire, at, those in zip(wires, starts, states, strict=True):
        node = design.instance(wire.source).node if wire.source else design.inputs[wire.output].node
        runs = np.concatenate(at or [np.zeros(0, np.int64)]), np.concatenate(those or [np.zeros(0, np.uint8)])
        lanes.append(Lane(design.label(wire), wire.source, wire.output, node, readers.get(wire, ""), *runs))
    trace = next((folder / n for n in TRACES if (folder / n).exists()), None)
    end = max((_last_transfer(lane, last) for lane in lanes), default=0)
    return Handshakes(max(first, 0), end, tuple(lanes), trace)


def _last_transfer(lane: Lane, last: int) -> int:
    """One past the last cycle with a transfer; 0 without any."""
    runs = np.flatnonzero(lane.states == State.TRANSFER)
    return int(np.append(lane.starts, last)[runs[-1] + 1]) if len(runs) else 0


def _read(log: Path, streams: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read a log in parts: cycles [lines], and the states [lines, streams] from each of them on.

    A line holds the cycle and all states in hexadecimal, stream 0 in the lowest two bits.
    """
    digits = -(-streams // 2)
    length = 8 + 1 + digits + 1
    with log.open("rb") as file:
        while data := file.read(length * LINES):
            lines = np.frombuffer(data[: len(data) // length * length], np.uint8).reshape(-1, length)
            if not len(lines):
                return
            cycles = _nibbles(lines[:, :8]).astype(np.int64) @ (16 ** np.arange(7, -1, -1, dtype=np.int64))
            packed = _nibbles(lines[:, 9:-1])[:, ::-1]
            states = np.stack([packed & 3, packed >> 2], -1).reshape(len(lines), -1)[:, :streams]
            yield cycles, states


def _nibbles(text: np.ndarray) -> np.ndarray:
    """Hexadecimal digits as numbers; x and z as 0."""
    return _DIGITS[text]


_DIGITS = np.zeros(256, np.uint8)
_DIGITS[48:58] = range(10)
_DIGITS[97:103] = _DIGITS[65:71] = range(10, 16)
