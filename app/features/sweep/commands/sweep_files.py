"""Files of a sweep: the record of a running sweep, and the result as a table, a chart or JSON."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from espalier.app.commands.command import UsageError
from espalier.app.figures.curves import draw
from espalier.model.files import append, write_bytes, write_text
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome, rows
from espalier.passes.sweep.sweep import Sweep

KINDS = (".csv", ".json", ".jsonl", ".svg", ".png", ".espalier")


class Record:
    """Points as JSON lines beside the output, until the output itself is written."""

    def __init__(self, path: Path | None, known: tuple[Outcome, ...] = ()) -> None:
        self.path, self.known = path, known
        self._done = False

    @property
    def hint(self) -> str:
        """How to continue."""
        return f"They are kept in {self.path}; run the same command to continue." if self.path else ""

    def add(self, outcome: Outcome) -> None:
        """Append a point; raises FileError."""
        if self.path:
            append(self.path, f"{journal.line(outcome)}\n".encode())

    def finish(self) -> None:
        """Delete the record, after the result was written or if there is none."""
        self._done = True

    @property
    def finished(self) -> bool:
        """Whether the record is no longer needed."""
        return self._done


@contextlib.contextmanager
def keeper(output: str | None, sweep: Sweep) -> Generator[Record]:
    """The record of a sweep with this `output`, with the points of an earlier run."""
    if not output:
        yield Record(None)
        return
    path = Path(output) if output.endswith(".jsonl") else Path(f"{output}.jsonl")
    stored = journal.read(path)
    if stored is None and path.exists() and path.stat().st_size:
        raise UsageError(f"{path} is not the record of a sweep.", "Choose another file, or delete it.")
    outcomes = stored.outcomes if stored else ()  # kept even if this run ends before it reaches them
    write_bytes(path, journal.dump(Journal(sweep, outcomes)), UsageError)
    record = Record(path, outcomes)
    try:
        yield record
    finally:
        if record.finished and not output.endswith(".jsonl"):
            path.unlink(missing_ok=True)


def write_result(path: Path, result: Journal, data: dict[str, Any]) -> None:
    """Write the result in the format of the path's suffix; raises FileError."""
    _WRITERS[path.suffix.lower()](path, result, data)


def to_csv(result: Journal) -> str:
    """CSV with a line per point."""
    table = [_flat(row) for row in rows(result.sweep, result.outcomes)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in table)
    return out.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row with separate columns for the ends of an interval."""
    values: dict[str, Any] = {}
    for key, value in row.items():
        ends = (None, None) if value is None else value
        values |= {"interval_low": ends[0], "interval_high": ends[1]} if key == "interval" else {key: value}
    return values


def _csv(path: Path, result: Journal, data: dict[str, Any]) -> None:
    write_text(path, to_csv(result))


def _json(path: Path, result: Journal, data: dict[str, Any]) -> None:
    from espalier.app.commands.console import plain

    write_text(path, json.dumps(plain(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _jsonl(path: Path, result: Journal, data: dict[str, Any]) -> None:
    write_bytes(path, journal.dump(result))


def _picture(path: Path, result: Journal, data: dict[str, Any]) -> None:
    draw(path, result.sweep, result.outcomes, data["figure"])


_WRITERS: dict[str, Callable[[Path, Journal, dict[str, Any]], None]] = {
    ".csv": _csv, ".json": _json, ".jsonl": _jsonl, ".svg": _picture, ".png": _picture,
}  # fmt: skip
