"""The library of modules in SystemVerilog, which lie beside this file."""

from __future__ import annotations

from pathlib import Path

from espalier.model.errors import EmitError

RTL = Path(__file__).parent
BENCH = ("bench", "clocked")  # modules beside a design


def ours(module: str) -> str:
    """The library's text of a module; raises EmitError where it has none."""
    path = RTL / f"{module}.sv"
    if not path.is_file():
        raise EmitError(f"The module {module} has no text.", f"Put {module}.sv beside the plug-in that names it.")
    return path.read_text()


def reserved() -> set[str]:
    """The names that no other module of a design may have."""
    return {*(p.stem for p in RTL.glob("*.sv")), *BENCH}
