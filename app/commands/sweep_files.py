"""Files of a sweep: the record that grows while it runs, and the result as a table, a picture or JSON."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any

from app.commands.command import UsageError
from app.figures.curves import draw
from passes.sweep import journal
from passes.sweep.journal import Journal
from passes.sweep.outcome import Outcome, rows
from passes.sweep.sweep import Sweep

KINDS = (".csv", ".json", ".jsonl", ".svg", ".png", ".espalier")


class Record:
    """Points as JSON lines beside the output, until the output itself is written."""

    def __init__(self, path: Path | None, known: tuple[Outcome, ...] = (), handle: IO[str] | None = None) -> None:
        self.path, self.known, self._handle = path, known, handle
        self._done = False

    @property
    def hint(self) -> str:
        """Where to go on."""
        return f"They are kept in {self.path}; the same command goes on from there." if self.path else ""

    def add(self, outcome: Outcome) -> None:
        """Write a point, whole."""
        if self._handle:
            self._handle.write(journal.line(outcome) + "\n")
            self._handle.flush()

    def finish(self) -> None:
        """The result is written, or there is none: the record is no longer needed."""
        self._done = True

    @property
    def finished(self) -> bool:
        """Whether the record is no longer needed."""
        return self._done


@contextlib.contextmanager
def keeper(output: str | None, sweep: Sweep) -> Generator[Record]:
    """The record of a sweep whose result goes to `output`; what an earlier run left there is known."""
    if not output:
        yield Record(None)
        return
    path = Path(output) if output.endswith(".jsonl") else Path(f"{output}.jsonl")
    held = journal.read(path)
    if held is None and path.exists() and path.stat().st_size:
        raise UsageError(f"{path} is not the record of a sweep.", "Choose another file, or delete it.")
    try:
        handle = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}).", "Choose another folder.") from error
    with handle:
        handle.write(journal.head_line(sweep) + "\n")
        known = held.outcomes if held else ()
        for outcome in known:  # not lost even where this run ends before it comes to them
            handle.write(journal.line(outcome) + "\n")
        record = Record(path, known, handle)
        try:
            yield record
        finally:
            if record.finished and not output.endswith(".jsonl"):
                path.unlink(missing_ok=True)


def write_result(path: Path, found: Journal, data: dict[str, Any]) -> None:
    """Write the result in the form that the path's ending names; raises UsageError."""
    try:
        _WRITERS[path.suffix.lower()](path, found, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}).", "Choose another file.") from error


def to_csv(found: Journal) -> str:
    """One line a point."""
    table = rows(found.sweep, found.outcomes)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in table)
    return out.getvalue()


def _csv(path: Path, found: Journal, data: dict[str, Any]) -> None:
    path.write_text(to_csv(found), encoding="utf-8", newline="")


def _json(path: Path, found: Journal, data: dict[str, Any]) -> None:
    from app.cli import plain

    path.write_text(json.dumps(plain(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _jsonl(path: Path, found: Journal, data: dict[str, Any]) -> None:
    path.write_bytes(journal.dump(found))


def _picture(path: Path, found: Journal, data: dict[str, Any]) -> None:
    draw(path, found.sweep, found.outcomes, data["figure"])


_WRITERS: dict[str, Callable[[Path, Journal, dict[str, Any]], None]] = {
    ".csv": _csv, ".json": _json, ".jsonl": _jsonl, ".svg": _picture, ".png": _picture,
}  # fmt: skip
