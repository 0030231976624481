"""OpenVINO in a process of its own: it ends the process for some shapes (4-bit weights with rows that end in a part of
a group, 2026.4), which must not end ours.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import ExportError
from espalier.model.leftovers import scratch
from espalier.model.orphans import python_command

if TYPE_CHECKING:
    from torch import Tensor

SECONDS = 600  # that a conversion or a run may take
STRUCTURE = 1 << 20  # bytes allowed for the .xml, which has no tensors
_CONVERT = """
import sys, openvino
openvino.save_model(openvino.Core().read_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)
"""
_RUN = """
import json, sys, numpy, openvino
model = openvino.Core().compile_model(sys.argv[1], "CPU", json.loads(sys.argv[4]))
given = numpy.load(sys.argv[2])
found = model({i.get_any_name(): given[i.get_any_name()] for i in model.inputs})
numpy.savez(sys.argv[3], *[found[o] for o in model.outputs])
"""


def convert(onnx: Path, path: Path) -> None:
    """Write an ONNX file as .xml and .bin, with tensors in the types that they have.

    Raises ExportError; OSError where the disk is full, for which OpenVINO has no message.
    """
    try:
        _python(_CONVERT, onnx, path)
    except ExportError:
        if shutil.disk_usage(path.parent).free < 2 * onnx.stat().st_size + STRUCTURE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise


def run(path: Path, inputs: Mapping[str, Tensor], entries: Mapping[str, str]) -> list[Tensor]:
    """The results of a file on the processor, in the graph's order; `entries`: settings of OpenVINO's CPU plug-in.

    Raises ExportError.
    """
    import numpy as np
    import torch

    with scratch() as folder:
        given, found = folder / "in.npz", folder / "out.npz"
        np.savez(given, **{k: v.numpy() for k, v in inputs.items()})  # type: ignore[arg-type]
        _python(_RUN, path, given, found, json.dumps(dict(entries)))
        with np.load(found) as results:
            return [torch.from_numpy(results[name]) for name in results.files]


def _python(script: str, *arguments: Path | str) -> None:
    command = python_command(script, *map(str, arguments))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"OpenVINO took more than {SECONDS} s.", "Export it as onnx.") from error
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        ended = f"its process ended with {done.returncode}" if done.returncode < 0 or not lines else lines[-1].strip()
        raise ExportError(f"OpenVINO cannot run the model ({ended[:300]}).", "Choose other formats, or export as onnx.")
