"""Names of splits and columns, read from the beginning of the data, as options of a form.

Fast enough for a pool thread: no torch, no pandas, at most 256 KiB of a file.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from espalier.model.data.base import ALL, source_of
from espalier.model.data.class_folders import LONE
from espalier.model.data.columns import choose_columns, looks_like_header
from espalier.model.data.local import find
from espalier.model.data.rows import SHARES
from espalier.model.data.tables import refuse_utf16, unreadable
from espalier.model.errors import DataError

MAX_BYTES = 1 << 18  # read of a file
ROWS = 200


@dataclass(frozen=True, slots=True)
class DataPreview:
    """Column and split names, the default choice of each (`text`, `label`, `split`), and a description."""

    columns: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    guesses: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    def names(self, kind: str) -> tuple[str, ...]:
        """Options for `text`, `label` or `split`."""
        return self.splits if kind == "split" else self.columns


def preview(spec: str) -> DataPreview:
    """Preview `spec` as `load_data` would read it; raises DataError if there is nothing readable."""
    if spec.startswith("demo:"):
        return _with_splits((), (*SHARES, ALL), "")
    if source_of(spec)[0] is not None:
        prefix = spec.partition(":")[0]
        return DataPreview(description=f"Columns and splits of {prefix} data are available after loading.")
    path = Path(spec).expanduser()
    files = find(path)
    splits = (ALL, *SHARES) if LONE in files.files else (*files.files, ALL)
    if files.kind == "plain":
        split = " Measured as a whole; its splits are the first 80 %, and 10 % each." if LONE in files.files else ""
        return _with_splits((), splits, f"Plain text, for language models.{split}")
    if files.kind == "mask":
        return _with_splits((), splits, "A folder of images with masks, for the task segmentation.")
    if files.kind == "arrays":
        return _with_splits((), splits, "Arrays of samples with classes, or of images with masks.")
    if files.kind != "table":
        what = "sound" if files.kind == "audio" else files.kind
        return _with_splits((), splits, f"A folder of {what}s with one subfolder per class.")
    first = next((p for p in files.paths() if p.stat().st_size), files.paths()[0])
    columns = _columns(first)
    text = f"{len(columns)} columns: {', '.join(columns)}."
    if LONE in files.files:
        text += " Measured on all rows; its splits are 80/10/10."
    return _with_splits(columns, splits, text)


def _with_splits(columns: tuple[str, ...], splits: tuple[str, ...], description: str) -> DataPreview:
    guesses = {"split": next((s for s in ("test", "validation") if s in splits and splits[0] != ALL), splits[0])}
    if columns:
        with contextlib.suppress(DataError):
            guesses |= dict(zip(("text", "label"), choose_columns(columns, None, None, "data"), strict=True))
    return DataPreview(columns, splits, guesses, description)


def _columns(path: Path) -> tuple[str, ...]:
    try:
        return _READERS[path.suffix.lower()](path)
    except Exception as error:
        raise unreadable(path, error) from error


def _beginning(path: Path) -> str:
    refuse_utf16(path)
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
    text = data.decode("utf-8-sig", errors="ignore" if len(data) == MAX_BYTES else "strict")
    if not text.strip():
        raise DataError(f"{path.name} is empty.", "Give a file with at least a text and a label column.")
    return text


def _delimited(path: Path) -> tuple[str, ...]:
    text = _beginning(path)
    head = text.partition("\n")[0]
    mark = "\t" if path.suffix.lower() == ".tsv" else next((m for m in ",;\t" if m in head), ",")
    rows = [row for _, row in zip(range(ROWS), csv.reader(io.StringIO(text), delimiter=mark), strict=False) if row]
    first = rows[0]
    below = [{row[i] for row in rows[1:-1] if i < len(row)} for i in range(len(first))]
    if looks_like_header(first, below, (None, None)):
        return tuple(first)
    names = [str(i) for i in range(len(first))]
    names[:2] = ["text", "label"][: len(names)]
    return tuple(names)


def _json(path: Path) -> tuple[str, ...]:
    text = _beginning(path).lstrip()
    start = text.find("{")
    if start < 0:
        raise DataError(f"{path.name} holds no records.", "Write one object per row, each with a text and a label.")
    record, _ = json.JSONDecoder().raw_decode(text, start)
    return tuple(str(name) for name in record)


def _parquet(path: Path) -> tuple[str, ...]:
    from pyarrow import parquet

    return tuple(parquet.read_schema(path).names)


_READERS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    ".csv": _delimited,
    ".tsv": _delimited,
    ".json": _json,
    ".jsonl": _json,
    ".ndjson": _json,
    ".parquet": _parquet,
}
