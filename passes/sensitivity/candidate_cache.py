"""What was measured of single candidates, kept as it comes: a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from espalier.model.borders import parse_json, read_text, tried
from espalier.model.document.codec import encode
from espalier.model.errors import FileError
from espalier.model.files import append
from espalier.passes.sensitivity.evidence import evidence_folder
from espalier.passes.sensitivity.measure import Measured
from espalier.passes.sensitivity.table import Candidate

KEEP = 16  # files; the oldest beyond it are removed
FIGURES = ("kl", "accuracy", "agreement", "samples", "seconds")


class Kept:
    """The measurements of one model on some samples, a line each; where nothing can be written, nothing is kept."""

    def __init__(self, key: str) -> None:
        self._path = evidence_folder() / f"{key}.jsonl"
        self._known = dict(_read(self._path))

    def get(self, node: str, port: str, candidate: Candidate) -> Measured | None:
        """What was measured of a candidate; None where nothing was."""
        return self._known.get(_name(node, port, candidate))

    def put(self, node: str, port: str, candidate: Candidate, found: Measured) -> None:
        """Keep a measurement, on disk before anybody is told."""
        name = _name(node, port, candidate)
        line = json.dumps({"of": name, **{f: getattr(found, f) for f in FIGURES}})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._known:
                self._make_room()
            append(self._path, f"{line}\n".encode())
        except (OSError, FileError):
            pass  # the run itself needs no file
        self._known[name] = found

    def _make_room(self) -> None:
        old = sorted(self._path.parent.glob("*.jsonl"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in old[KEEP - 1 :]:
            path.unlink(missing_ok=True)


def _name(node: str, port: str, candidate: Candidate) -> str:
    return json.dumps([node, port, encode(candidate)], sort_keys=True)


def _read(path: Path) -> Iterator[tuple[str, Measured]]:
    """Lines that are whole; the last may have been cut off."""
    for line in tried(lambda: read_text(path), "").splitlines():
        if found := tried(lambda line=line: _measured(parse_json(line)), None):
            yield found


def _measured(held: dict[str, Any]) -> tuple[str, Measured]:
    return str(held["of"]), Measured(*(held[f] for f in FIGURES))
