"""llama.cpp in a process of its own: it ends its process where an assertion fails, which must not end ours."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from espalier.passes.export.child_process import ChildProcess
from espalier.passes.export.llama_cpp.server import BINDINGS, binding

SERVER = Path(__file__).with_name("server.py")


def runtime() -> str:
    """llama.cpp with the version of its binding."""
    name = BINDINGS[binding()]
    return f"llama.cpp by {name.replace('_', '-')} {version(name)}"


class LlamaCpp(ChildProcess):
    """The process, which ends with this object or its context. All methods raise ExportError."""

    title, hint = "llama.cpp", "Choose other formats or other data."

    def __init__(self) -> None:
        super().__init__(SERVER)

    def quantise(self, source: Path, path: Path, kind: int) -> None:
        """Write a file by llama.cpp's own quantiser, to a type of llama_ftype; llama-cpp-python has it alone."""
        self._ask("quantise", source=str(source), path=str(path), kind=kind)
