"""Disk cache of measured candidates, one line each: an interrupted run resumes from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from espalier.model.borders import parse_json, read_text, tried
from espalier.model.document.codec import encode
from espalier.model.errors import FileError
from espalier.model.files import append
from espalier.passes.sensitivity.gradient_statistics import statistics_folder
from espalier.passes.sensitivity.measure import Measured
from espalier.passes.sensitivity.table import Candidate

KEEP = 16  # files; the oldest beyond it are removed
FIGURES = ("kl", "accuracy", "agreement", "samples", "seconds", "targets", "figures")


class CandidateCache:
    """Measurements of one model on some samples, one line each; write errors are ignored."""

    def __init__(self, key: str) -> None:
        self._path = statistics_folder() / f"{key}.jsonl"
        self._known = dict(_read(self._path))

    def get(self, node: str, port: str, candidate: Candidate) -> Measured | None:
        """The measurement of a candidate, or None."""
        return self.known(_name(node, port, candidate))

    def put(self, node: str, port: str, candidate: Candidate, result: Measured) -> None:
        """Store the measurement of a candidate, on disk first."""
        self.keep(_name(node, port, candidate), result)

    def known(self, name: str) -> Measured | None:
        """The measurement of that name, or None."""
        return self._known.get(name)

    def keep(self, name: str, result: Measured) -> None:
        """Store a measurement under a name, on disk first."""
        line = json.dumps({"of": name, **{f: getattr(result, f) for f in FIGURES}})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._known:
                self._remove_old()
            append(self._path, f"{line}\n".encode())
        except (OSError, FileError):
            pass  # the run works without the file
        self._known[name] = result

    def _remove_old(self) -> None:
        old = sorted(self._path.parent.glob("*.jsonl"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in old[KEEP - 1 :]:
            path.unlink(missing_ok=True)


def _name(node: str, port: str, candidate: Candidate) -> str:
    return json.dumps([node, port, encode(candidate)], sort_keys=True)


def _read(path: Path) -> Iterator[tuple[str, Measured]]:
    """The valid lines; the last may be truncated."""
    for line in tried(lambda: read_text(path), "").splitlines():
        if entry := tried(lambda line=line: _measured(parse_json(line)), None):
            yield entry


def _measured(values: dict[str, Any]) -> tuple[str, Measured]:
    return str(values["of"]), Measured(*(values[f] for f in FIGURES))
