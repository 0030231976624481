"""Readers of CSV, TSV, JSON, JSONL and Parquet files; every defect of a file is raised as one DataError."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from espalier.model.borders import reading
from espalier.model.data.base import LoadOptions, OtherLabelsError
from espalier.model.data.columns import TEXT_NAMES, choose_columns, looks_like_header, one_of
from espalier.model.data.rows import Rows, label_name
from espalier.model.errors import DataError, damage

UNPACKED, RATIO = 1 << 28, 100  # limit of a Parquet file's unpacked size: bytes, and multiple of the file size
Table = Any  # a pandas DataFrame: pandas comes untyped


class NoRowsError(DataError):
    """A file without rows; an error only if its split is requested or all files are empty."""


def read_rows(path: Path, options: LoadOptions) -> Rows:
    """The texts and labels of one file; columns as in `load_data`."""
    table = read_table(path, options)
    with reading(path, DataError, "cannot be read", "Name the columns of texts and labels with --text and --label."):
        return (options.form.rows or rows_of)(table, path.name, options)


def read_table(path: Path, options: LoadOptions) -> Table:
    """The file as a table of named columns; raises DataError if it is empty, unreadable or not UTF-8."""
    if path.stat().st_size == 0:
        raise NoRowsError(f"{path.name} is empty.", "Give a file with at least a text and a label column.")
    refuse_utf16(path)
    try:
        table = _READERS[path.suffix.lower()](path, options)
    except Exception as error:
        raise unreadable(path, error) from error
    if not len(table):
        raise NoRowsError(f"{path.name} holds no rows.", "Give a file with at least a text and a label column.")
    return table


def unreadable(path: Path, error: Exception) -> DataError:
    """DataError for an exception of a file's reader, with the first line of its message."""
    if isinstance(error, DataError):
        return error
    if isinstance(error, UnicodeDecodeError):
        hint = "Convert it, for example: iconv -f latin1 -t utf-8 OLD > NEW"
        return DataError(f"{path.name} is not UTF-8 (byte {error.start}).", hint)
    lines = str(error).strip().splitlines() if isinstance(error, ValueError | OSError) else []
    first = lines[0].rstrip(".") if lines else damage(error)
    if fields := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", first):
        wanted, line, found = fields.groups()
        hint = "Put quotation marks around a cell that contains the separator, or correct the line."
        return DataError(f"{path.name} has {found} fields in line {line}, and {wanted} in the lines before.", hint)
    return DataError(f"{path.name} cannot be read: {first}.", "Check that its suffix matches its content.")


def refuse_utf16(path: Path) -> None:
    """Raise DataError for a text in UTF-16, detected by its byte order mark or by zero bytes."""
    if path.suffix.lower() == ".parquet":
        return
    with path.open("rb") as file:
        head = file.read(4096)
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not marked and head.count(0) <= len(head) // 4:
        return
    kind = "utf-16" if marked else "utf-16le" if head[1::2].count(0) > head[::2].count(0) else "utf-16be"
    raise DataError(
        f"{path.name} is UTF-16, not UTF-8.", f"Convert it, for example: iconv -f {kind} -t utf-8 OLD > NEW"
    )


def rows_of(table: Table, source: str, options: LoadOptions) -> Rows:
    """Texts and labels from a table; raises DataError for missing columns and missing values."""
    text, label = choose_columns([str(c) for c in table.columns], options.text, options.label, source)
    texts = _complete(table, text, "text", source)
    if all(_is_number(value) for value in texts):
        raise DataError(f"Column {text!r} of {source} holds numbers, not texts.", "Name the texts with --text.")
    labels = _complete(table, label, "label", source)
    if any(is_list(value) for value in labels):
        message = f"Column {label!r} of {source} holds lists: several labels a row."
        raise OtherLabelsError(message, "Choose the task multi-label, or name another column with --label.", "lists")
    return Rows(tuple(str(t) for t in texts), tuple(label_name(v) for v in labels))


def is_list(value: object) -> bool:
    """Whether a cell holds several values, as in JSON and Parquet."""
    return isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0)


def labelled_texts(
    table: Table, source: str, options: LoadOptions, terms: tuple[str, str] = ("text", "label")
) -> tuple[tuple[str, ...], list[Any], str]:
    """(texts, cells of the label column, its name), with the common names of the task's columns; raises DataError.

    terms: what errors call a text and a label.
    """
    names = [str(c) for c in table.columns]
    form = options.form
    text, label = choose_columns(names, options.text, options.label, source, form.texts, form.labels)
    texts = _complete(table, text, "text", source, terms[0])
    return tuple(str(t) for t in texts), _complete(table, label, "label", source, terms[1]), label


def texts_of(table: Table, source: str, options: LoadOptions) -> tuple[str, ...]:
    """The texts of a table that needs no labels, also empty ones; raises DataError."""
    column = one_of([str(c) for c in table.columns], options.text, TEXT_NAMES, "--text", source)
    values = table[column]
    return tuple(str(text) for text in values[~values.isna()])


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _complete(table: Table, column: str, option: str, source: str, what: str = "") -> list[Any]:
    """The cells of a column, which `option` names; raises DataError for empty ones. what: of a cell, in the error."""
    values = table[column]
    missing = values.isna() | (values.astype(str).str.strip() == "")
    if missing.any():
        first = int(missing.to_numpy().argmax()) + 1
        raise DataError(
            f"{int(missing.sum())} of {len(table)} rows of {source} have no {what or option} (first: row {first}).",
            f"Remove those rows, or name another column with --{option}.",
        )
    return values.tolist()


def _pandas() -> Any:
    import pandas

    return pandas


def _read_csv(path: Path, options: LoadOptions) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        head = file.readline()
    separator = next((mark for mark in ",;\t" if mark in head), ",")
    return _with_header(_parse(path, separator, csv.QUOTE_MINIMAL), options)


def _read_tsv(path: Path, options: LoadOptions) -> Table:
    """Read a TSV file; quotation marks are plain characters if one is unpaired, as in treebank files."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    cells = [cell for line in lines for cell in line.split("\t") if cell.startswith('"')]
    quoted = bool(cells) and all(len(cell) > 1 and cell.endswith('"') for cell in cells)
    return _with_header(_parse(path, "\t", csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE), options)


def _parse(path: Path, separator: str, quoting: int) -> Table:
    pandas = _pandas()

    # Everything as text, without NaN: "NA" and "null" are words, and labels are compared by name.
    return pandas.read_csv(
        path, sep=separator, quoting=quoting, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig"
    )


def _with_header(table: Table, options: LoadOptions) -> Table:
    """Name the columns by the first row, or by position (text 0, label 1) if that row is data."""
    first = [str(cell) for cell in table.iloc[0]]
    below = [set(table[column].iloc[1:]) for column in table.columns]
    if looks_like_header(first, below, (options.text, options.label)):
        table.columns = first
        return table.iloc[1:]
    names = [str(i) for i in range(len(first))]
    if options.text is None and options.label is None:
        names[:2] = ["text", "label"][: len(names)]
    table.columns = names
    return table


def _read_json(path: Path, options: LoadOptions) -> Table:
    pandas = _pandas()

    with path.open(encoding="utf-8-sig") as file:
        lines = path.suffix.lower() != ".json" or file.read(64).lstrip()[:1] == "{"
    return pandas.read_json(path, lines=lines, dtype=False, encoding="utf-8-sig")


def _read_parquet(path: Path, options: LoadOptions) -> Table:
    """Read a Parquet file after a check of its unpacked size: few bytes may encode any number of rows or copies."""
    from pyarrow import parquet, types

    _pandas()
    size = path.stat().st_size
    with parquet.ParquetFile(path) as file:
        facts = file.metadata
        plain = sum(facts.row_group(n).total_byte_size for n in range(facts.num_row_groups))
        _check_unpacked(path, max(plain, 8 * facts.num_rows * facts.num_columns), size)
        texts = [f.name for f in file.schema_arrow if types.is_string(f.type) or types.is_large_string(f.type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:  # repeated texts are stored once
        arrow = file.read().unify_dictionaries()
    parts = [part for column in arrow.columns for part in column.chunks if types.is_dictionary(part.type)]
    _check_unpacked(path, sum(map(_characters, parts)), size)
    table = arrow.to_pandas()
    return table.astype({name: object for name in texts if name in table.columns})


def _characters(part: Any) -> int:
    """Bytes of the texts of a dictionary-encoded array, decoded."""
    import pyarrow.compute

    compute: Any = pyarrow.compute
    if not (pyarrow.types.is_string(part.type.value_type) or pyarrow.types.is_large_string(part.type.value_type)):
        return 0
    each = compute.binary_length(part.dictionary)
    return compute.sum(each.take(part.indices)).as_py() or 0


def _check_unpacked(path: Path, unpacked: int, size: int) -> None:
    """Raise DataError if the unpacked size exceeds the limits."""
    if unpacked > max(UNPACKED, RATIO * size):
        raise DataError(f"{path.name} unpacks to more than {unpacked >> 20} MiB out of {size / (1 << 20):.1f} MiB.",
                        "Give the data as CSV, or in several smaller files.")  # fmt: skip


_READERS: dict[str, Callable[[Path, LoadOptions], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
}
SUFFIXES = tuple(_READERS)
