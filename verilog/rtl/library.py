"""The SystemVerilog module library: the `.sv` files in this folder."""

from __future__ import annotations

from pathlib import Path

from espalier.model.errors import EmitError

RTL = Path(__file__).parent
BENCH = ("bench", "clocked")  # modules of the test bench


def library_text(module: str) -> str:
    """The library's text of a module; raises EmitError for an unknown one."""
    path = RTL / f"{module}.sv"
    if not path.is_file():
        raise EmitError(f"The module {module} has no text.", f"Put {module}.sv beside the plug-in that names it.")
    return path.read_text()


def reserved() -> set[str]:
    """Names that other modules of a design may not have."""
    return {*(p.stem for p in RTL.glob("*.sv")), *BENCH}
