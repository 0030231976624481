"""Event-driven cycle simulation of a network of engines, forks and FIFOs. Compiled where numba is installed.

An engine stalls while a beat at its output is not taken. A fork passes a beat to each reader as it becomes ready; a
FIFO outputs a beat a cycle after it was written. Only units with events are evaluated, so idle stretches are free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from espalier.verilog.numbers.compiled import njit

DONE, STUCK = 0, 1
ENGINE, FORK, FIFO = 0, 1, 2
_KINDS = {"engine": ENGINE, "fork": FORK, "fifo": FIFO}
RUNS, DRAINS, STALLS = 0, 1, 2  # a sleeping engine in each cycle: steps and shifts; shifts; does nothing
NEVER = 1 << 62
IN, OUT = 0, 1

# columns of a unit: constants (KIND … FIRST), then its state
KIND, DEPTH, STEPS, FRAMES, FIRST, LEVEL, STEP, FRAME, MODE, LAST, ALARM = range(11)
# columns of a channel: beats in total and per frame, offset of its stamps, its ends, whether it feeds a FIFO or leaves
# the design, then its state
BEATS, PER, STAMPS, WRITER, READER, TO_FIFO, SINK, VALID, READY, MOVED, WHEN, OPENS, PEAK = range(13)


@dataclass(frozen=True, slots=True)
class UnitNetwork:
    """`units` in topological order, `beats` of each channel over all frames, and the boundary channels."""

    units: list[dict[str, Any]]
    beats: list[int]
    sources: list[int]
    per_frame: list[int]
    sinks: list[int]
    spacing: int


@dataclass(frozen=True, slots=True, eq=False)
class CycleResult:
    """`stamps[channel]`: the cycle of each beat; `peaks[channel]`: the peak fill of the FIFO before it."""

    state: int
    stamps: list[np.ndarray]
    peaks: np.ndarray


def run(work: UnitNetwork) -> CycleResult:
    """Simulate until every beat has reached a sink, or nothing can move."""
    count, width = len(work.units), max((max(len(u["ins"]), len(u["outs"])) for u in work.units), default=1)
    units, links = np.zeros((count, 11), np.int64), np.full((count, 2, width), -1)
    channels = _channels(work)
    at = 0
    for k, unit in enumerate(work.units):
        units[k, [KIND, DEPTH, LEVEL, FIRST]] = _KINDS[unit["kind"]], unit["depth"], unit.get("primed", 0), at
        units[k, [MODE, ALARM]] = STALLS, NEVER
        links[k, IN, : len(unit["ins"])], links[k, OUT, : len(unit["outs"])] = unit["ins"], unit["outs"]
        channels[unit["outs"], WRITER], channels[unit["ins"], READER] = k, k
        if unit["kind"] == "fifo":
            channels[unit["ins"], TO_FIFO] = 1
        elif unit["kind"] == "engine":
            units[k, [STEPS, FRAMES]] = unit["steps"], unit["frames"]
            at += unit["steps"]
    marks, quiet = _step_masks([u for u in work.units if u["kind"] == "engine"], at)
    stamps = np.full(sum(work.beats) + 1, -1, np.int64)
    state = _run(units, channels, links, marks, quiet, stamps, np.array(work.sources, np.int64), work.spacing)
    ends = channels[:, STAMPS] + channels[:, BEATS]
    by_channel = [stamps[a:b] for a, b in zip(channels[:, STAMPS], ends, strict=True)]
    return CycleResult(int(state), by_channel, channels[:, PEAK])


def _channels(work: UnitNetwork) -> np.ndarray:
    channels = np.zeros((len(work.beats), 13), np.int64)
    channels[:, BEATS] = work.beats
    channels[1:, STAMPS] = np.cumsum(work.beats)[:-1]
    channels[:, [WRITER, READER, WHEN]] = -1
    channels[work.sources, PER] = work.per_frame
    channels[work.sinks, SINK] = channels[work.sinks, READY] = 1
    return channels


def _step_masks(engines: list[dict[str, Any]], total: int) -> tuple[np.ndarray, np.ndarray]:
    """For all steps of all engines: input and output channels as bit masks, and the steps until the next with any."""
    masks, quiet = np.zeros((max(total, 1), 2), np.uint16), np.zeros(max(total, 1), np.int64)
    at = 0
    for unit in engines:
        steps = unit["steps"]
        own_steps = masks[at : at + steps]
        for side, those in enumerate((unit["takes"], unit["gives"])):
            for slot, mask in enumerate(those):
                own_steps[:, side] |= np.asarray(mask, np.uint16) << np.uint16(slot)
        busy = np.append(
            np.where(own_steps.any(axis=1), np.arange(steps), steps), steps
        )  # the end of a frame is an event
        quiet[at : at + steps] = np.minimum.accumulate(busy[::-1])[::-1][:-1] - np.arange(steps)
        at += steps
    return masks, quiet


@njit()
def _advance(u: int, cycle: int, units: Any, pipe: Any) -> None:
    """Advance a sleeping engine to the start of a cycle."""
    elapsed = cycle - units[u, LAST]
    units[u, LAST] = cycle
    if elapsed <= 0 or units[u, KIND] != ENGINE or units[u, MODE] == STALLS:
        return
    mask = (1 << units[u, DEPTH]) - 1
    for k in range(pipe.shape[1]):
        pipe[u, k] = ((pipe[u, k] << elapsed) & mask) if elapsed < 63 else 0
    if units[u, MODE] == RUNS:
        units[u, STEP] += elapsed
        if units[u, STEP] >= units[u, STEPS]:
            units[u, STEP] -= units[u, STEPS]
            units[u, FRAME] += 1


@njit()
def _set_valid(u: int, units: Any, links: Any, pipe: Any, channels: Any, hot: Any) -> None:
    """Set valid of a unit's outputs, and ready of a FIFO's input; units affected by a change become hot."""
    for k in range(links.shape[2]):
        c = links[u, OUT, k]
        if c < 0:
            break
        if units[u, KIND] == ENGINE:
            valid = (pipe[u, k] >> (units[u, DEPTH] - 1)) & 1
        elif units[u, KIND] == FORK:
            valid = channels[links[u, IN, 0], VALID] & (1 - pipe[u, k])
        else:
            valid = 1 if units[u, LEVEL] > 0 else 0
        if valid != channels[c, VALID]:
            channels[c, VALID] = valid
            if channels[c, READER] >= 0:
                hot[channels[c, READER]] = True
    if units[u, KIND] == FIFO:
        channels[links[u, OUT, 0], PEAK] = max(channels[links[u, OUT, 0], PEAK], units[u, LEVEL])
        _set_ready(links[u, IN, 0], 1 if units[u, LEVEL] < units[u, DEPTH] else 0, len(hot), channels, hot, hot)


@njit()
def _set_ready(c: int, ready: int, by: int, channels: Any, hot: Any, later: Any) -> None:
    """Set ready of a channel read by unit `by`; a change wakes the writer, in the next cycle if already evaluated."""
    if ready != channels[c, READY]:
        channels[c, READY] = ready
        writer = channels[c, WRITER]
        if writer >= by:
            later[writer] = True
        elif writer >= 0:
            hot[writer] = True


@njit()
def _enabled(u: int, links: Any, channels: Any) -> bool:
    """Whether the pipeline of an engine may move: every beat at its outputs is taken."""
    for k in range(links.shape[2]):
        c = links[u, OUT, k]
        if c >= 0 and channels[c, VALID] and not channels[c, READY]:
            return False
    return True


@njit()
def _inputs_valid(u: int, input_mask: int, links: Any, channels: Any) -> bool:
    """Whether all input beats of a step are valid."""
    for k in range(links.shape[2]):
        if links[u, IN, k] >= 0 and (input_mask >> k) & 1 and not channels[links[u, IN, k], VALID]:
            return False
    return True


@njit()
def _engine(
    u: int, cycle: int, units: Any, links: Any, pipe: Any, channels: Any, marks: Any, quiet: Any, hot: Any, later: Any
) -> None:
    """Evaluate one cycle of an engine, and set the alarm until which it may sleep."""
    enable, runs = _enabled(u, links, channels), units[u, FRAME] < units[u, FRAMES]
    position = units[u, FIRST] + units[u, STEP]
    input_mask = int(marks[position, IN]) if runs else 0
    go = enable and runs and _inputs_valid(u, input_mask, links, channels)
    for k in range(links.shape[2]):
        if links[u, IN, k] < 0:
            break
        _set_ready(links[u, IN, k], (input_mask >> k) & 1 if go else 0, u, channels, hot, later)
    units[u, LAST] = cycle + 1
    units[u, MODE] = DRAINS if enable else STALLS
    if not enable:
        return
    gives, asleep = int(marks[position, OUT]) if go else 0, NEVER
    for k in range(links.shape[2]):
        if links[u, OUT, k] < 0:
            break
        pipe[u, k] = ((pipe[u, k] << 1) & ((1 << units[u, DEPTH]) - 1)) | ((gives >> k) & 1)
        asleep = 0 if channels[links[u, OUT, k], VALID] else min(asleep, _cycles_to_output(pipe[u, k], units[u, DEPTH]))
    if go:
        units[u, STEP] = (units[u, STEP] + 1) % units[u, STEPS]
        units[u, FRAME] += 1 if units[u, STEP] == 0 else 0
        if units[u, FRAME] < units[u, FRAMES]:
            units[u, MODE] = RUNS
            asleep = min(asleep, quiet[units[u, FIRST] + units[u, STEP]])
    if asleep == 0 or (go and (input_mask != 0 or units[u, MODE] == DRAINS)):  # to update ready of its inputs
        later[u] = True
    elif asleep < NEVER:
        units[u, ALARM] = cycle + 1 + asleep


@njit()
def _cycles_to_output(pipe: int, depth: int) -> int:
    """Cycles until the first beat of a pipeline reaches its output."""
    if pipe == 0:
        return NEVER
    cycles = 0
    while (pipe >> (depth - 1 - cycles)) & 1 == 0:
        cycles += 1
    return cycles


@njit()
def _fork(u: int, links: Any, had: Any, channels: Any, hot: Any, later: Any) -> None:
    """Evaluate one cycle of a fork; `had`: outputs that have already taken the current beat."""
    done = True
    for k in range(links.shape[2]):
        if links[u, OUT, k] >= 0 and not (had[u, k] or channels[links[u, OUT, k], READY]):
            done = False
    _set_ready(links[u, IN, 0], 1 if done else 0, u, channels, hot, later)
    if channels[links[u, IN, 0], VALID]:
        for k in range(links.shape[2]):
            if links[u, OUT, k] >= 0:
                had[u, k] = 1 if not done and (had[u, k] or channels[links[u, OUT, k], READY]) else 0


@njit()
def _set_input_valid(cycle: int, sources: Any, spacing: int, channels: Any, hot: Any) -> None:
    """Set valid of the design's inputs."""
    for c in sources:
        if channels[c, OPENS] > cycle:
            continue
        valid = 1 if channels[c, MOVED] < channels[c, BEATS] else 0
        start = (channels[c, MOVED] // channels[c, PER]) * spacing if valid else 0
        channels[c, OPENS] = start if cycle < start else NEVER
        valid = valid if cycle >= start else 0
        if valid != channels[c, VALID]:
            channels[c, VALID] = valid
            if channels[c, READER] >= 0:
                hot[channels[c, READER]] = True


@njit()
def _transfer(c: int, cycle: int, units: Any, channels: Any, stamps: Any, later: Any) -> int:
    """Transfer a beat that is valid and ready, at most once per cycle; both ends are evaluated in the next cycle.

    Returns the number of beats that reached a sink. A stalled engine transfers nothing, or a FIFO would get a beat
    twice."""
    if not (channels[c, VALID] and channels[c, READY]) or channels[c, WHEN] == cycle:
        return 0
    writer, reader = channels[c, WRITER], channels[c, READER]
    if channels[c, TO_FIFO] and writer >= 0 and units[writer, KIND] == ENGINE and units[writer, MODE] == STALLS:
        return 0
    channels[c, WHEN] = cycle
    if writer >= 0:
        later[writer] = True
        units[writer, LEVEL] -= 1
    else:
        channels[c, OPENS] = cycle + 1
    if reader >= 0:
        later[reader] = True
        units[reader, LEVEL] += 1
    if channels[c, MOVED] == channels[c, BEATS]:
        return 0
    stamps[channels[c, STAMPS] + channels[c, MOVED]] = cycle
    channels[c, MOVED] += 1
    return channels[c, SINK]


@njit()
def _next(cycle: int, soon: int, sources: Any, channels: Any, later: Any) -> int:
    """The next cycle with an event."""
    for u in range(len(later)):
        if later[u]:
            return cycle + 1
    for c in sources:
        soon = min(soon, channels[c, OPENS])
    return soon


@njit()
def _wake(cycle: int, units: Any, hot: Any) -> int:
    """Mark units whose alarm is due as hot; returns the next alarm."""
    soon = NEVER
    for u in range(len(units)):
        if units[u, ALARM] <= cycle:
            hot[u] = True
        else:
            soon = min(soon, units[u, ALARM])
    return soon


@njit()
def _cycle(
    cycle: int, units: Any, channels: Any, links: Any, pipe: Any, marks: Any, quiet: Any, hot: Any, later: Any,
    evaluated: Any,
) -> int:  # fmt: skip
    """Evaluate one cycle of all hot units; they are listed in `evaluated`, and their number is returned."""
    count, hot_count = len(units), 0
    for u in range(count):  # valid, in topological order
        if hot[u]:
            _advance(u, cycle, units, pipe)
            _set_valid(u, units, links, pipe, channels, hot)
    for v in range(count):  # ready, in reverse order
        u = count - 1 - v
        if not hot[u]:
            continue
        hot[u], units[u, ALARM], evaluated[hot_count] = False, NEVER, u
        hot_count += 1
        if units[u, KIND] == ENGINE:
            _advance(u, cycle, units, pipe)
            _engine(u, cycle, units, links, pipe, channels, marks, quiet, hot, later)
        elif units[u, KIND] == FORK:
            _fork(u, links, pipe, channels, hot, later)
    return hot_count


@njit(cache=True)
def _run(units: Any, channels: Any, links: Any, marks: Any, quiet: Any, stamps: Any, sources: Any, spacing: int) -> int:
    count = len(units)
    pipe = np.zeros((count, links.shape[2]), np.int64)  # engine: bit d is a beat d cycles after its step; fork: `had`
    hot, later, evaluated = np.ones(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.int64)
    remaining, cycle, soon = np.sum(channels[:, BEATS] * channels[:, SINK]), 0, NEVER
    while remaining > 0:
        if soon <= cycle:
            soon = _wake(cycle, units, hot)
        _set_input_valid(cycle, sources, spacing, channels, hot)
        hot_count = _cycle(cycle, units, channels, links, pipe, marks, quiet, hot, later, evaluated)
        for c in sources:
            remaining -= _transfer(c, cycle, units, channels, stamps, later)
        for n in range(hot_count):
            soon = min(soon, units[evaluated[n], ALARM])
            for k in range(2 * links.shape[2]):
                c = links[evaluated[n], k & 1, k >> 1]
                if c >= 0:
                    remaining -= _transfer(c, cycle, units, channels, stamps, later)
        hot, later = later, hot
        cycle = _next(cycle, soon, sources, channels, hot)
        if cycle == NEVER and remaining > 0:
            return STUCK
    for u in range(count):
        if units[u, KIND] == FIFO:
            channels[links[u, OUT, 0], PEAK] = max(channels[links[u, OUT, 0], PEAK], units[u, LEVEL])
    return DONE
