"""What a pass with gradients has gathered so far, on disk: one that is stopped or killed goes on where it was.

Safetensors beside the finished evidence, under the key of the same weights and samples; gone once that is there.
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
from espalier.passes.sensitivity.evidence import write_whole

Arrays = dict[str, NDArray[Any]]
KEEP = 4  # files; the oldest beyond it are removed
SHARE, LEAST = 20.0, 2.0  # a write takes at most so small a part of the time; seconds between two at least


class Unfinished:
    """The state of one pass; where nothing can be written, nothing is kept."""

    def __init__(self, evidence: Path) -> None:
        self.path = evidence.with_suffix(".unfinished")
        self._written, self._took = time.monotonic(), 0.0

    def read(self) -> tuple[Arrays, dict[str, Any]] | None:
        """(arrays, facts) as they were written last; None where there are none, or they cannot be read."""
        return tried(self._read, None)

    def _read(self) -> tuple[Arrays, dict[str, Any]]:
        data = self.path.read_bytes()  # all at once: another process may put a newer one in its place
        start = 8 + int.from_bytes(data[:8], "little")
        header = parse_json(data[8:start])
        facts = parse_json(header.pop("__metadata__")["state"])
        return {name: _array(data, start, entry) for name, entry in header.items()}, facts

    @property
    def due(self) -> bool:
        """Whether so much was gathered since the last write that another pays."""
        return time.monotonic() - self._written >= max(LEAST, SHARE * self._took)

    def write(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Whole or not at all."""
        begun = time.monotonic()
        tensors = {n: Tensor(np.ascontiguousarray(a), str(a.dtype)) for n, a in arrays.items()}
        try:
            write_whole(self.path, tensors, {"state": json.dumps(facts)})
            self._make_room()
        except (OSError, ProjectError):
            pass  # the pass itself needs no file
        self._written = time.monotonic()
        self._took = self._written - begun

    def _make_room(self) -> None:
        held = self.path.parent
        for path in sorted(held.glob("*.unfinished"), key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """What it led to is kept elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


def _array(data: bytes, start: int, entry: Mapping[str, Any]) -> NDArray[Any]:
    """One of the arrays that lie from byte `start` on; its own copy, to be written to."""
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[start + begin : start + end], NAMES[entry["dtype"]]).reshape(entry["shape"]).copy()
