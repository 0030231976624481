"""OpenVINO in a process of its own. It ends its process for some shapes (4-bit weights with rows that end in a part of
a group, 2026.4), and its objects can leave a process that a signal then ends: see server.py.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import ExportError
from espalier.passes.export.child_process import ChildProcess

if TYPE_CHECKING:
    from torch import Tensor

STRUCTURE = 1 << 20  # bytes allowed for the .xml, which has no tensors


def missing() -> str:
    """The package that is not installed, or empty."""
    return "" if importlib.util.find_spec("openvino") else "openvino"


class OpenVINO(ChildProcess):
    """The process, which ends with this object or its context. All methods raise ExportError.

    `run` takes `entries`, settings of the CPU plug-in; without `threads`, it has OpenVINO's default settings otherwise.
    """

    title, hint = "OpenVINO", "Choose other formats, or export it as onnx."

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("server.py"))

    def convert(self, onnx: Path, path: Path) -> None:
        """Write an ONNX file as .xml and .bin, with tensors in the types that they have.

        Raises OSError where the disk is full, for which OpenVINO has no message.
        """
        try:
            self._ask("convert", onnx=str(onnx), path=str(path))
        except ExportError:
            if shutil.disk_usage(path.parent).free < 2 * onnx.stat().st_size + STRUCTURE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
            raise

    def quantise(self, file: Path, path: Path, batches: Sequence[Mapping[str, Tensor]], *, transformer: bool) -> None:
        """Write what nncf makes of a file with batches of calibration. `transformer`: its model_type."""
        paths = [self._saved(batch, f"batch{i}.npz") for i, batch in enumerate(batches)]
        self._ask("quantise", float=str(file), path=str(path), batches=paths, transformer=transformer)
