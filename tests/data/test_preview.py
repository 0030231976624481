"""Previews of data: the names that a form offers, from any kind of file, as the reader would find them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.model.data.base import LoadOptions
from espalier.model.data.preview import MAX_BYTES, preview
from espalier.model.data.tables import read_rows
from espalier.model.errors import DataError

ROWS = [{"sentence": f"film {i}", "stars": i, "sentiment": ("pos", "neg")[i % 2]} for i in range(40)]
COLUMNS = ("sentence", "stars", "sentiment")


def write(path: Path) -> Path:
    match path.suffix:
        case ".csv" | ".tsv":
            mark = "\t" if path.suffix == ".tsv" else ","
            lines = [mark.join(COLUMNS), *(mark.join(map(str, r.values())) for r in ROWS)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        case ".json":
            path.write_text(json.dumps(ROWS), encoding="utf-8")
        case ".jsonl":
            path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
        case _:
            import pandas

            pandas.DataFrame(ROWS).to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".parquet"])
def test_columns_and_what_would_be_taken(tmp_path: Path, suffix: str) -> None:
    found = preview(str(write(tmp_path / f"films{suffix}")))
    assert found.columns == COLUMNS and found.names("text") == COLUMNS
    assert found.guesses["text"] == "sentence" and found.guesses["label"] == "sentiment"
    assert {"train", "validation", "test"} <= set(found.names("split"))
    assert "3 columns: sentence, stars, sentiment." in found.description


def test_a_file_without_a_header_names_its_columns_as_the_reader_does(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("a fine film,1\na poor film,0\nanother,1\n", encoding="utf-8")
    assert preview(str(path)).columns == ("text", "label")


def test_a_folder_of_splits(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write(tmp_path / f"{name}.csv")
    found = preview(str(tmp_path))
    assert found.columns == COLUMNS and {"train", "test"} <= set(found.splits) and "validation" not in found.splits


def test_a_large_file_is_read_at_its_beginning_alone(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_bytes(b"text,label\n" + "é ,1\n".encode() * MAX_BYTES)
    assert preview(str(path)).columns == ("text", "label")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [("none.csv", None, "no data at"), ("empty.csv", b"", "empty"), ("odd.json", b"[1, 2]", "no records"),
     ("latin.csv", b"text,label\n\xe9,1\n", "not UTF-8"), ("note.rst", b"x", "not a supported data file")],
)  # fmt: skip
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        preview(str(tmp_path / name))
    assert told in caught.value.message and caught.value.hint


def test_sources_that_are_no_files() -> None:
    assert "test" in preview("demo:reviews").splits and preview("demo:reviews").columns == ()
    assert "hub" in preview("hub:sst2").description


def test_the_reader_takes_the_columns_that_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "films.csv")
    rows = read_rows(path, LoadOptions())
    assert rows.samples[0] == ROWS[0][preview(str(path)).guesses["text"]]
    assert rows.labels[0] == ROWS[0][preview(str(path)).guesses["label"]]


def test_a_preview_loads_neither_torch_nor_pandas(tmp_path: Path) -> None:
    path = write(tmp_path / "films.csv")
    code = f"import sys; from espalier.model.data.preview import preview; preview({str(path)!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "pandas"} & set(loaded)
