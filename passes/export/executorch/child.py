"""ExecuTorch in a process of its own: its compiler logs and registers operators, its runtime can crash."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.passes.export.child_process import ChildProcess

if TYPE_CHECKING:
    from torch import Tensor

PACKAGES = ("executorch", "torchao")
_HINT = "Choose other formats, or export it as onnx."
_LARGER = f"If its sizes exceed those that the file is planned for, give a larger --largest. {_HINT}"


def missing() -> str:
    """The package that is not installed, or empty."""
    return next((name for name in PACKAGES if importlib.util.find_spec(name) is None), "")


class ExecuTorch(ChildProcess):
    """The process, which ends with this object or its context. All methods raise ExportError."""

    title, hint, hints = "ExecuTorch", _HINT, {"run": _LARGER, "timed": _LARGER}

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("server.py"))

    def lower(self, program: Path, path: Path, names: Sequence[str]) -> None:
        """Write a torch.export file as .pte, with the names of its inputs; raises OSError where the disk is full."""
        self._ask("lower", program=str(program), path=str(path), names=list(names))

    def quantise(
        self, program: Path, path: Path, batches: Sequence[Mapping[str, Tensor]], free: Mapping[str, Mapping[int, int]],
        *, dynamic: bool,
    ) -> None:  # fmt: skip
        """As `lower`, by XNNPACKQuantizer with batches; `free`: input → axis → the largest size."""
        paths = [self._saved(batch, f"batch{i}.npz") for i, batch in enumerate(batches)]
        free = {name: dict(axes) for name, axes in free.items()}
        self._ask("quantise", program=str(program), path=str(path), batches=paths, free=free, dynamic=dynamic)
