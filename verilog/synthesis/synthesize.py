"""Synthesis of a design by Yosys: resources of each instance, and optionally the clock frequency.

Hierarchy is kept at the instances, so that their resources are separate; equal modules are synthesised once.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from espalier.model.errors import SimulateError
from espalier.model.leftovers import scratch
from espalier.verilog.area.resources import Area
from espalier.verilog.design.netlist import Design
from espalier.verilog.proof.subprocesses import run_polled
from espalier.verilog.proof.tools import Tool, yosys
from espalier.verilog.rtl.write import modules, texts
from espalier.verilog.synthesis.route import arguments, frequency, netlist_script, router, write_harness
from espalier.verilog.templates.unrolled import Unrolled

Target = Literal["xilinx", "ecp5", "ice40"]
Progress = Callable[[str], None]
TARGETS: tuple[Target, ...] = get_args(Target)
COMMANDS: Mapping[str, str] = {
    "xilinx": "synth_xilinx -family xc7 -flatten", "ecp5": "synth_ecp5", "ice40": "synth_ice40 -dsp",
}  # fmt: skip
SECONDS = 7200
_MODULE = re.compile(r"^module \w+", re.MULTILINE)
_STRAY = re.compile(r'^[ \t]*[^\s"{}].*\n', re.MULTILINE)  # Yosys 0.23 mixes text into the JSON of nested modules
_PASS = re.compile(r"Executing (.+?) pass")

# look-up tables of each cell type; distributed RAM counts the tables that it occupies
LUTS: Mapping[str, int] = {
    **{f"LUT{n}": 1 for n in range(1, 7)}, "SRL16E": 1, "SRLC16E": 1, "SRLC32E": 1,
    "RAM16X1D": 2, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8,
    "RAM16X1S": 1, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4,
    "CCU2C": 2, "TRELLIS_DPR16X4": 6, "SB_LUT4": 1,
}  # fmt: skip
FLOPS = re.compile(r"FD[RSCP]E(_1)?|FD[RSCP]|TRELLIS_FF|SB_DFF\w*")
DSPS: Mapping[str, int] = {"DSP48E1": 1, "MULT18X18D": 1, "SB_MAC16": 1}
BRAMS: Mapping[str, int] = {
    "RAMB18E1": 1, "RAMB36E1": 2, "DP16KD": 1, "PDPW16KD": 1, "SB_RAM40_4K": 1, "SB_RAM40_4KNR": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Resources in total and by instance; `fmax`: MHz after place and route; `notes`: why results are missing."""

    target: str
    tool: str
    total: Area
    instances: dict[str, Area]
    fmax: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    cells: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]


def synthesize(design: Design, target: str, progress: Progress = lambda text: None, route: bool = False) -> Synthesis:
    """Synthesise a design; raises SimulateError with Yosys' message.

    `progress` is called with the current pass; an exception that it raises stops the run. `route`: also place and
    route for the clock frequency; if that fails, a note says why.
    """
    if target not in COMMANDS:
        raise SimulateError(f"There is no synthesis for {target}.", f"Choose one of {', '.join(TARGETS)}.")
    tool, started = yosys(), time.perf_counter()
    with scratch() as name:
        folder = Path(name)
        _files(design, folder)
        (folder / "synth.ys").write_text(script(design, target))
        _run_tool(tool, ["-s", "synth.ys"], folder, progress, "yosys")
        statistics = json.loads(_STRAY.sub("", (folder / "stat.json").read_text()))["modules"]
        tops = json.loads((folder / "top.json").read_text())["modules"]
        fmax, notes = _clock(design, target, tool, folder, progress) if route else (None, ())
    counts = _Counts({_unescaped(n): m["num_cells_by_type"] for n, m in statistics.items()})
    cells = next(m for n, m in tops.items() if _unescaped(n) == design.name)["cells"]
    areas = {n.removeprefix("u_"): area(counts.cells(_unescaped(c["type"]))) for n, c in cells.items() if n[:2] == "u_"}
    all_cells = counts.cells(design.name)
    return Synthesis(
        target, tool.command[0], area(all_cells), areas, fmax, notes, time.perf_counter() - started, all_cells
    )


def script(design: Design, target: str) -> str:
    """The Yosys script; all paths are relative, since the wheel can only read its working folder."""
    return "\n".join([
        f"read_verilog -sv -defer {' '.join(sources(design))}",
        f"read_verilog -sv {design.name}.sv",
        f"hierarchy -check -top {design.name}",
        *commands(design, target),
        "tee -q -o stat.json stat -json",
        f"json -o top.json {design.name}",
        *(["setattr -mod -unset keep_hierarchy", "flatten", "write_json flat.json"] if target == "ecp5" else []), "",
    ])  # fmt: skip


def commands(design: Design, target: str) -> tuple[str, ...]:
    """Yosys commands that map a design to a device. Networks of adders are flattened after the coarse passes, which
    take hours on a flat network (look-up tables agree within 0.1 %)."""
    if target != "xilinx" or not any(isinstance(i, Unrolled) for i in design.instances):
        return (f"{COMMANDS[target]} -top {design.name}",)
    part = f"synth_xilinx -family xc7 -top {design.name} -run"
    return f"{part} begin:fine", "flatten", f"hierarchy -top {design.name}", f"{part} fine:check"


def sources(design: Design) -> tuple[str, ...]:
    """Paths of the modules of a design, relative to its folder."""
    return tuple(f"rtl/{m}.sv" for m in modules(design))


def _files(design: Design, folder: Path) -> None:
    """Write the design, with keep_hierarchy on the modules of its instances."""
    marked = {f"rtl/{i.module}.sv" for i in design.instances}
    for name, text in texts(design).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_MODULE.sub(r"(* keep_hierarchy *) \g<0>", text, count=1) if name in marked else text)


def _run_tool(tool: Tool, arguments: list[str], folder: Path, progress: Progress, name: str) -> str:
    """Run a tool with progress messages; returns its output. An exception of `progress` kills it."""
    command = [*tool.command, *arguments]
    code, output = run_polled(
        command, folder, tool.environment, SECONDS, lambda log: progress(_current_pass(log, name))
    )
    if code:
        errors = [x.strip() for x in output.splitlines() if "ERROR" in x] or [output.strip()[-400:] or "no message"]
        raise SimulateError(f"{name} failed: {errors[0]}", "\n".join(errors[1:5]) or "See its message.")
    return output


def _current_pass(log: Path, name: str) -> str:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - 4000, 0))
        passes = _PASS.findall(file.read().decode(errors="replace"))
    return f"{name}: {passes[-1]}" if passes else name


def _clock(
    design: Design, target: str, tool: Tool, folder: Path, progress: Progress
) -> tuple[float | None, tuple[str, ...]]:
    """MHz after place and route, or None and a note with the reason."""
    try:
        placer = router(target)
        if target == "ice40":
            write_harness(design, folder)
            (folder / "flat.ys").write_text(netlist_script(design, sources(design), "flat.json"))
            _run_tool(tool, ["-s", "flat.ys"], folder, progress, "yosys")
        fmax = frequency(_run_tool(placer, arguments(target, "flat.json"), folder, progress, f"nextpnr-{target}"))
    except SimulateError as error:
        return None, (f"No clock frequency: {error.message} {error.hint}",)
    return fmax, () if fmax else ("No clock frequency: there is no path between registers.",)


def _unescaped(name: str) -> str:
    return name.removeprefix("\\")


@dataclass(frozen=True, slots=True)
class _Counts:
    """Cells of each module by type, including submodules."""

    modules: dict[str, dict[str, Any]]

    def cells(self, name: str) -> dict[str, int]:
        """Primitive cells of a module and its submodules."""
        total: dict[str, int] = {}
        for kind, count in self.modules[name].items():
            within = self.cells(_unescaped(kind)) if _unescaped(kind) in self.modules else {_unescaped(kind): 1}
            for cell, n in within.items():
                total[cell] = total.get(cell, 0) + n * int(count)
        return total


def area(cells: Mapping[str, int]) -> Area:
    """Resources of cells by type."""

    def of(weights: Mapping[str, int]) -> int:
        return sum(count * weights.get(kind, 0) for kind, count in cells.items())

    flops = sum(count for kind, count in cells.items() if FLOPS.fullmatch(kind))
    return Area(of(LUTS), flops, of(DSPS), of(BRAMS))
