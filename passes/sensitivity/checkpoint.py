"""Checkpoints of a gradient pass: an interrupted one resumes from the last.

A safetensors file beside the gradient statistics, with the same key; removed when those are complete.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.borders import parse_json, tried
from espalier.model.errors import ProjectError
from espalier.model.store.weights import NAMES, Tensor
from espalier.passes.sensitivity.gradient_statistics import write_file

Arrays = dict[str, NDArray[Any]]
KEEP = 4  # files; the oldest beyond it are removed
RATIO, MIN_INTERVAL = 20.0, 2.0  # of the interval to the duration of a write; seconds


class GradientCheckpoint:
    """The state of one pass; write errors are ignored."""

    def __init__(self, evidence: Path) -> None:
        self.path = evidence.with_suffix(".unfinished")
        self._written, self._took = time.monotonic(), 0.0

    def read(self) -> tuple[Arrays, dict[str, Any]] | None:
        """(arrays, other state) of the last checkpoint; None if it is missing or unreadable."""
        return tried(self._read, None)

    def _read(self) -> tuple[Arrays, dict[str, Any]]:
        data = self.path.read_bytes()  # in one read: another process may replace the file
        start = 8 + int.from_bytes(data[:8], "little")
        header = parse_json(data[8:start])
        facts = parse_json(header.pop("__metadata__")["state"])
        return {name: _array(data, start, entry) for name, entry in header.items()}, facts

    @property
    def due(self) -> bool:
        """Whether the interval since the last write is over; it is RATIO times the duration of that write."""
        return time.monotonic() - self._written >= max(MIN_INTERVAL, RATIO * self._took)

    def write(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically."""
        begun = time.monotonic()
        tensors = {n: Tensor(np.ascontiguousarray(a), str(a.dtype)) for n, a in arrays.items()}
        try:
            write_file(self.path, tensors, {"state": json.dumps(facts)})
            self._remove_old()
        except (OSError, ProjectError):
            pass  # the pass works without the file
        self._written = time.monotonic()
        self._took = self._written - begun

    def _remove_old(self) -> None:
        folder = self.path.parent
        for path in sorted(folder.glob("*.unfinished"), key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the checkpoint."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


def _array(data: bytes, start: int, entry: Mapping[str, Any]) -> NDArray[Any]:
    """A writable copy of one array; offsets count from byte `start`."""
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[start + begin : start + end], NAMES[entry["dtype"]]).reshape(entry["shape"]).copy()
