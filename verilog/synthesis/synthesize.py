"""What a synthesiser makes of a design: its resources, instance by instance, by Yosys; where asked, its clock.

Every instance is synthesised with its borders kept, so that what it takes is known; equal ones are done once.
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
from espalier.verilog.proof.subprocesses import watched
from espalier.verilog.proof.tools import Tool, yosys
from espalier.verilog.rtl.write import modules, texts
from espalier.verilog.synthesis.route import arguments, frequency, netlist_script, router, write_harness
from espalier.verilog.templates.unrolled import Unrolled

Target = Literal["xilinx", "ecp5", "ice40"]
Say = Callable[[str], None]
TARGETS: tuple[Target, ...] = get_args(Target)
COMMANDS: Mapping[str, str] = {
    "xilinx": "synth_xilinx -family xc7 -flatten", "ecp5": "synth_ecp5", "ice40": "synth_ice40 -dsp",
}  # fmt: skip
SECONDS = 7200
_MODULE = re.compile(r"^module \w+", re.MULTILINE)
_STRAY = re.compile(r'^[ \t]*[^\s"{}].*\n', re.MULTILINE)  # Yosys 0.23 puts text among it where modules lie in modules
_PASS = re.compile(r"Executing (.+?) pass")

# cells that take look-up tables, and how many; a RAM of tables counts those that it takes away
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
    """Resources of the whole and of each instance; `fmax`: MHz after place and route; `notes`: what was left out."""

    target: str
    tool: str
    total: Area
    instances: dict[str, Area]
    fmax: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    cells: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]


def synthesize(design: Design, target: str, say: Say = lambda text: None, route: bool = False) -> Synthesis:
    """Raises SimulateError with Yosys' own message. `say` hears of every pass; what it raises stops the work.

    `route`: also place and route for a clock; why there is none is among the notes.
    """
    if target not in COMMANDS:
        raise SimulateError(f"There is no synthesis for {target}.", f"Choose one of {', '.join(TARGETS)}.")
    tool, begin = yosys(), time.perf_counter()
    with scratch() as name:
        folder = Path(name)
        _files(design, folder)
        (folder / "synth.ys").write_text(script(design, target))
        _started(tool, ["-s", "synth.ys"], folder, say, "yosys")
        counted = json.loads(_STRAY.sub("", (folder / "stat.json").read_text()))["modules"]
        tops = json.loads((folder / "top.json").read_text())["modules"]
        fmax, notes = _clock(design, target, tool, folder, say) if route else (None, ())
    per = _Counts({_plain(n): m["num_cells_by_type"] for n, m in counted.items()})
    cells = next(m for n, m in tops.items() if _plain(n) == design.name)["cells"]
    found = {n.removeprefix("u_"): area(per.cells(_plain(c["type"]))) for n, c in cells.items() if n.startswith("u_")}
    every = per.cells(design.name)
    return Synthesis(target, tool.command[0], area(every), found, fmax, notes, time.perf_counter() - begin, every)


def script(design: Design, target: str) -> str:
    """The commands for Yosys; all names are relative, since its wheel sees nothing but its folder."""
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
    """What maps a design to a device. Networks of adders are made flat after the coarse passes: in one module these
    take hours (the same look-up tables within 0.1 %)."""
    if target != "xilinx" or not any(isinstance(i, Unrolled) for i in design.instances):
        return (f"{COMMANDS[target]} -top {design.name}",)
    part = f"synth_xilinx -family xc7 -top {design.name} -run"
    return f"{part} begin:fine", "flatten", f"hierarchy -top {design.name}", f"{part} fine:check"


def sources(design: Design) -> tuple[str, ...]:
    """The library's files that a design needs, below its folder."""
    return tuple(f"rtl/{m}.sv" for m in modules(design))


def _files(design: Design, folder: Path) -> None:
    """The design, with the borders of its instances marked as such."""
    marked = {f"rtl/{i.module}.sv" for i in design.instances}
    for name, text in texts(design).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_MODULE.sub(r"(* keep_hierarchy *) \g<0>", text, count=1) if name in marked else text)


def _started(tool: Tool, more: list[str], folder: Path, say: Say, name: str) -> str:
    """Run a tool to its end, telling what it does; killed when `say` raises."""
    code, said = watched([*tool.command, *more], folder, tool.environment, SECONDS, lambda log: say(_doing(log, name)))
    if code:
        wrong = [x.strip() for x in said.splitlines() if "ERROR" in x] or [said.strip()[-400:] or "no message"]
        raise SimulateError(f"{name} failed: {wrong[0]}", "\n".join(wrong[1:5]) or "See its message.")
    return said


def _doing(log: Path, name: str) -> str:
    with log.open("rb") as held:
        held.seek(max(log.stat().st_size - 4000, 0))
        found = _PASS.findall(held.read().decode(errors="replace"))
    return f"{name}: {found[-1]}" if found else name


def _clock(design: Design, target: str, tool: Tool, folder: Path, say: Say) -> tuple[float | None, tuple[str, ...]]:
    """MHz after place and route, or why nobody knows."""
    try:
        placer = router(target)
        if target == "ice40":
            write_harness(design, folder)
            (folder / "flat.ys").write_text(netlist_script(design, sources(design), "flat.json"))
            _started(tool, ["-s", "flat.ys"], folder, say, "yosys")
        found = frequency(_started(placer, arguments(target, "flat.json"), folder, say, f"nextpnr-{target}"))
    except SimulateError as error:
        return None, (f"No clock is told: {error.message} {error.hint}",)
    return found, () if found else ("No clock is told: there is no path between registers.",)


def _plain(name: str) -> str:
    return name.removeprefix("\\")


@dataclass(frozen=True, slots=True)
class _Counts:
    """Cells of each module by type, other modules among them."""

    modules: dict[str, dict[str, Any]]

    def cells(self, name: str) -> dict[str, int]:
        """Primitive cells of a module and all within."""
        found: dict[str, int] = {}
        for kind, count in self.modules[name].items():
            within = self.cells(_plain(kind)) if _plain(kind) in self.modules else {_plain(kind): 1}
            for cell, n in within.items():
                found[cell] = found.get(cell, 0) + n * int(count)
        return found


def area(cells: Mapping[str, int]) -> Area:
    """Cells by type as resources."""

    def of(weights: Mapping[str, int]) -> int:
        return sum(count * weights.get(kind, 0) for kind, count in cells.items())

    flops = sum(count for kind, count in cells.items() if FLOPS.fullmatch(kind))
    return Area(of(LUTS), flops, of(DSPS), of(BRAMS))
