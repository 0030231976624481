"""Texts in windows for language models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.data import windows as windows_module
from espalier.model.data.base import NEXT_TOKEN, DataSource, LoadOptions, join
from espalier.model.data.loading import load_data, load_with
from espalier.model.data.local import find
from espalier.model.data.summary import summarise
from espalier.model.data.tokens import open_stream
from espalier.model.data.windows import WINDOWS, load_windows, windows
from espalier.model.errors import DataError
from tests.language_models import text_of, write_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


def options(tokenizer: Path, **more: object) -> LoadOptions:
    return LoadOptions(tokenizer, task=NEXT_TOKEN, form=WINDOWS, **{"max_length": 16, **more})  # type: ignore[arg-type]


def test_labels_are_the_next_tokens_and_bytes_those_of_their_text(tokenizer: Path) -> None:
    text = text_of(400, 1)
    ids, ends = open_stream(tokenizer)(text)
    split, pieces = windows(ids, ends, text, 16)
    assert split.labels.shape == split.inputs["input_ids"].shape == ((len(ids) - 1) // 16, 16)
    assert np.array_equal(split.inputs["input_ids"].ravel(), ids[: split.targets])
    assert np.array_equal(split.labels.ravel(), ids[1 : split.targets + 1])
    assert split.text_bytes is not None
    covered = text[int(ends[0]) : int(ends[split.targets])]
    assert "".join(pieces) == covered and int(split.text_bytes.sum()) == len(covered.encode())
    assert len(covered.encode()) > len(covered), "some characters take several bytes"


def test_a_short_text_is_one_window() -> None:
    split, pieces = windows(np.arange(5), np.arange(1, 6), "abcde", 512)
    assert split.labels.tolist() == [[1, 2, 3, 4]] and pieces == ("bcde",)


def test_a_lone_text_is_divided_in_its_order(tokenizer: Path, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(text_of(900))
    whole = load_with(str(path), options(tokenizer, whole=True))
    parts = load_with(str(path), options(tokenizer))
    assert list(whole.splits) == ["all"] and list(parts.splits) == ["train", "validation", "test"]
    assert np.array_equal(join(list(parts.splits.values())).labels, whole.splits["all"].labels)
    assert whole.task == parts.task == NEXT_TOKEN and whole.classes == ()
    again = load_with(str(path), options(tokenizer))
    for name, split in parts.splits.items():  # from the cache
        assert np.array_equal(split.labels, again.splits[name].labels) and again.texts == parts.texts
        assert np.array_equal(split.text_bytes, again.splits[name].text_bytes)  # type: ignore[arg-type]
    few = load_with(str(path), options(tokenizer, limit=3))
    assert [len(s) for s in few.splits.values()] == [3, 3, 3]


def test_a_folder_of_splits_and_a_table_without_labels(tokenizer: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_text(text_of(200, len(name)))
    assert list(load_with(str(tmp_path), options(tokenizer)).splits) == ["train", "test"]
    rows = [text_of(20, seed) for seed in range(40)]
    table = tmp_path / "rows.csv"
    table.write_text("id,text\n" + "\n".join(f'{at},"{row}"' for at, row in enumerate(rows)))
    found = load_with(str(table), options(tokenizer, whole=True)).splits["all"]
    ids, _ = open_stream(tokenizer)("\n\n".join(rows))
    assert np.array_equal(found.labels.ravel(), ids[1 : found.targets + 1])


@pytest.mark.slow
def test_texts_of_a_demo_need_no_labels(tokenizer: Path) -> None:
    data = load_with("demo:reviews", options(tokenizer, limit=5))
    assert data.task == NEXT_TOKEN and {len(s) for s in data.splits.values()} == {5}


@pytest.mark.parametrize(("text", "message"), [("ab", "too few to predict"), ("word " * 30, "windows, too few")])
def test_too_short_texts(tokenizer: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "short.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_with(str(path), options(tokenizer))


def test_what_is_no_text_for_a_language_model(tokenizer: Path, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(text_of(50))
    with pytest.raises(DataError, match="plain text, which has no labels"):
        load_data(str(path), tokenizer=tokenizer)
    with pytest.raises(DataError, match="no tokenizer is given"):
        load_with(str(path), LoadOptions(task=NEXT_TOKEN, form=WINDOWS))
    with pytest.raises(DataError, match="holds no texts"):
        load_with("demo:digits", options(tokenizer))


def test_the_summary_counts_windows_and_tokens(tokenizer: Path, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(text_of(600))
    data = load_with(str(path), options(tokenizer))
    found = summarise(data, 16)
    assert found.window == 16 and found.classes == () and not found.edges
    for summary in found.splits:
        split = data.splits[summary.name]
        assert (summary.samples, summary.tokens) == (len(split), split.labels.size)
        assert summary.majority == np.unique(split.labels, return_counts=True)[1].max() / split.labels.size


def test_lists_beside_folders_of_classes_are_no_text(tmp_path: Path) -> None:
    for name in ("neg", "pos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text("a film")
    (tmp_path / "train.txt").write_text("neg/1.txt\npos/1.txt\n")
    assert find(tmp_path).kind == "text"


def test_a_split_that_is_too_short_is_left_out(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text_of(200))
    (tmp_path / "test.txt").write_text("a")
    data = load_with(str(tmp_path), options(tokenizer))
    assert list(data.splits) == ["train"] and "test has fewer than 3 tokens" in data.notes[0]


def test_a_source_that_returns_something_else(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "source_of", lambda spec: (DataSource(lambda name, options: {}), "x"))  # type: ignore[arg-type,return-value]
    with pytest.raises(DataError, match="returned a dict"):
        load_windows("mine:x", options(tokenizer))
