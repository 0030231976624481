"""A reference cycle simulation that evaluates every unit in every cycle, to compare the event-driven one with."""

from __future__ import annotations

from typing import Any

import numpy as np

from espalier.verilog.timing.cycles import _KINDS, DONE, ENGINE, FIFO, FORK, STUCK, CycleResult, UnitNetwork


def run(work: UnitNetwork) -> CycleResult:
    """Step until every beat has reached a sink, or nothing moves any more."""
    count = len(work.units)
    width = max((max(len(u["ins"]), len(u["outs"])) for u in work.units), default=1)
    ins, outs = np.full((count, width), -1), np.full((count, width), -1)
    kinds, depths, steps, loops, primed = (np.zeros(count, np.int64) for _ in range(5))
    masks: list[np.ndarray] = []
    starts = np.zeros(count, np.int64)
    at = 0
    for k, unit in enumerate(work.units):
        kinds[k], depths[k], primed[k] = _KINDS[unit["kind"]], unit["depth"], unit.get("primed", 0)
        ins[k, : len(unit["ins"])], outs[k, : len(unit["outs"])] = unit["ins"], unit["outs"]
        starts[k] = at
        if unit["kind"] == "engine":
            steps[k], loops[k] = unit["steps"], unit["frames"]
            packed = np.zeros((unit["steps"], 2), np.int64)
            for side, marks in enumerate((unit["takes"], unit["gives"])):
                for slot, mark in enumerate(marks):
                    packed[:, side] |= np.asarray(mark, np.int64) << slot
            masks.append(packed)
            at += unit["steps"]
    marks = np.concatenate(masks) if masks else np.zeros((1, 2), np.int64)
    offsets = np.concatenate([[0], np.cumsum(work.beats)]).astype(np.int64)
    stamps = np.full(int(offsets[-1]) + 1, -1, np.int64)
    most = np.zeros(len(work.beats), np.int64)
    most[outs[kinds == FIFO, 0]] = primed[kinds == FIFO]
    per = np.zeros(len(work.beats), np.int64)
    per[work.sources] = work.per_frame
    sinks = np.zeros(len(work.beats), np.bool_)
    sinks[work.sinks] = True
    waits = np.zeros(len(work.beats), np.bool_)  # the channels before a FIFO
    waits[ins[kinds == FIFO, 0]] = True
    state = _step((kinds, depths, steps, loops, starts, primed), marks, ins, outs, offsets, stamps, most,
                  np.array(work.sources, np.int64), per, sinks, waits, work.spacing)  # fmt: skip
    pieces = [stamps[offsets[c] : offsets[c + 1]] for c in range(len(work.beats))]
    return CycleResult(int(state), pieces, most)


def _offer(units: Any, ins: Any, outs: Any, valid: Any, ready: Any, pipe: Any, had: Any, held: Any) -> None:
    """Mark the channels that have a beat to take, and those before a FIFO that has room."""
    kinds, depths = units[0], units[1]
    for u in range(len(kinds)):
        for k in range(ins.shape[1]):
            c = outs[u, k]
            if c < 0:
                continue
            if kinds[u] == ENGINE:
                valid[c] = (pipe[u, k] >> (depths[u] - 1)) & 1
            elif kinds[u] == FORK:
                valid[c] = valid[ins[u, 0]] and not had[u, k]
            else:
                valid[c] = held[u] > 0
                ready[ins[u, 0]] = held[u] < depths[u]


def _enabled(u: int, outs: Any, valid: Any, ready: Any) -> bool:
    """Whether the pipeline of an engine may move: no beat at its end is left standing."""
    for k in range(outs.shape[1]):
        c = outs[u, k]
        if c >= 0 and valid[c] and not ready[c]:
            return False
    return True


def _fed(u: int, takes: int, ins: Any, valid: Any) -> bool:
    """Whether all beats that a step takes are there."""
    for k in range(ins.shape[1]):  # noqa: SIM110
        if ins[u, k] >= 0 and (takes >> k) & 1 and not valid[ins[u, k]]:
            return False
    return True


def _engine(
    u: int, units: Any, marks: Any, ins: Any, outs: Any, valid: Any, ready: Any, pipe: Any, at: Any, waits: Any
) -> bool:
    """One cycle of an engine; whether anything in it moves. Nothing goes into a FIFO (`waits`) while it stands."""
    depth, steps, enable, runs = units[1][u], units[2][u], _enabled(u, outs, valid, ready), at[u, 1] < units[3][u]
    place = units[4][u] + at[u, 0]
    takes = marks[place, 0] if runs else 0
    go = enable and runs and _fed(u, takes, ins, valid)
    for k in range(ins.shape[1]):
        if ins[u, k] >= 0:
            ready[ins[u, k]] = go and (takes >> k) & 1
    if not enable:
        for k in range(outs.shape[1]):
            if outs[u, k] >= 0 and waits[outs[u, k]]:
                valid[outs[u, k]] = False
        return False
    gives, moves = marks[place, 1] if go else 0, go
    for k in range(outs.shape[1]):
        if outs[u, k] >= 0:
            pipe[u, k] = ((pipe[u, k] << 1) & ((1 << depth) - 1)) | ((gives >> k) & 1)
            moves = moves or pipe[u, k] != 0
    if go:
        at[u, 0] = (at[u, 0] + 1) % steps
        at[u, 1] += 1 if at[u, 0] == 0 else 0
    return moves


def _fork(u: int, ins: Any, outs: Any, valid: Any, ready: Any, had: Any) -> None:
    """One cycle of a fork."""
    whole = True
    for k in range(ins.shape[1]):
        if outs[u, k] >= 0 and not (had[u, k] or ready[outs[u, k]]):
            whole = False
    ready[ins[u, 0]] = whole
    if valid[ins[u, 0]]:
        for k in range(ins.shape[1]):
            if outs[u, k] >= 0:
                had[u, k] = not whole and (had[u, k] or ready[outs[u, k]])


def _wait(kinds: Any, ins: Any, outs: Any, valid: Any, ready: Any, held: Any, most: Any) -> None:
    """What the FIFOs hold after a cycle: all is decided by then, also where a channel leads back."""
    for u in range(len(kinds)):
        if kinds[u] == FIFO:
            came, gone = ins[u, 0], outs[u, 0]
            held[u] += (1 if valid[came] and ready[came] else 0) - (1 if valid[gone] and ready[gone] else 0)
            most[gone] = max(most[gone], held[u])


def _step(
    units: Any, marks: Any, ins: Any, outs: Any, offsets: Any, stamps: Any, most: Any, sources: Any, per: Any,
    sinks: Any, waits: Any, spacing: int,
) -> int:  # fmt: skip
    kinds = units[0]
    count, channels = len(kinds), len(most)
    valid, ready, moved = np.zeros(channels, np.bool_), sinks.copy(), np.zeros(channels, np.int64)
    at, held = np.zeros((count, 2), np.int64), units[5].copy()  # step and frame of each engine; beats of each FIFO
    pipe = np.zeros(ins.shape, np.int64)  # bit d: a beat that is d cycles from its step
    had = np.zeros(ins.shape, np.bool_)
    left, cycle, idle, longest = 0, 0, 0, 64 + spacing  # no pipeline is deeper
    for c in range(channels):
        left += offsets[c + 1] - offsets[c] if sinks[c] else 0
    while left > 0:
        for c in sources:
            sent = moved[c]
            valid[c] = sent < offsets[c + 1] - offsets[c] and (spacing == 0 or cycle >= (sent // per[c]) * spacing)
        _offer(units, ins, outs, valid, ready, pipe, had, held)
        moves = False
        for v in range(count):
            u = count - 1 - v
            if kinds[u] == ENGINE:
                moves = _engine(u, units, marks, ins, outs, valid, ready, pipe, at, waits) or moves
            elif kinds[u] == FORK:
                _fork(u, ins, outs, valid, ready, had)
        _wait(kinds, ins, outs, valid, ready, held, most)
        for c in range(channels):
            if valid[c] and ready[c] and moved[c] < offsets[c + 1] - offsets[c]:
                stamps[offsets[c] + moved[c]] = cycle
                moved[c] += 1
                moves = True
                left -= 1 if sinks[c] else 0
        cycle += 1
        idle = 0 if moves else idle + 1
        if idle > longest:
            return STUCK
    return DONE
