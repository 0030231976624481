"""Tokenised once: a second load reads the cache; other content, options or tokenizers do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from espalier.model.data import cache as store
from espalier.model.data import caption_files, prepare, recent
from espalier.model.data.base import LoadOptions, TaskData
from espalier.model.data.loading import load_data


def _no_tokenizer(source: object) -> None:
    raise AssertionError("tokenised again")


def _same(one: TaskData, other: TaskData) -> None:
    assert (one.name, one.kind, one.classes, one.texts) == (other.name, other.kind, other.classes, other.texts)
    for name, split in one.splits.items():
        assert np.array_equal(split.labels, other.splits[name].labels)
        for key, array in split.inputs.items():
            again = other.splits[name].inputs[key]
            assert again.dtype == array.dtype and np.array_equal(again, array)


def test_a_second_load_does_not_tokenise(csv_file: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_data(str(csv_file), tokenizer=tokenizer)
    monkeypatch.setattr(prepare, "open_tokenizer", _no_tokenizer)
    _same(first, load_data(str(csv_file), tokenizer=tokenizer))
    with pytest.raises(AssertionError):
        load_data(str(csv_file), tokenizer=tokenizer, max_length=7)
    csv_file.write_text(csv_file.read_text() + "one more,1\n")
    with pytest.raises(AssertionError):
        load_data(str(csv_file), tokenizer=tokenizer)


def test_another_tokenizer_in_the_same_folder_counts(
    csv_file: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for path in tokenizer.glob("tokenizer*.json"):
        shutil.copy(path, mine)
    load_data(str(csv_file), tokenizer=mine)
    (mine / "tokenizer_config.json").write_text((mine / "tokenizer_config.json").read_text() + "\n")
    monkeypatch.setattr(prepare, "open_tokenizer", _no_tokenizer)
    with pytest.raises(AssertionError):
        load_data(str(csv_file), tokenizer=mine)


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_damaged_cache_is_made_again(csv_file: Path, tokenizer: Path, cache: Path, damage: bytes) -> None:
    first = load_data(str(csv_file), tokenizer=tokenizer)
    (file,) = cache.rglob("*.npz")
    file.write_bytes(damage)
    _same(first, load_data(str(csv_file), tokenizer=tokenizer))


def test_an_unwritable_cache_is_no_error(csv_file: Path, tokenizer: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert len(load_data(str(csv_file), tokenizer=tokenizer).split("train")) == 32


def test_the_oldest_files_go(csv_file: Path, tokenizer: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEEP", 2)
    for length in (5, 6, 7, 8):
        load_data(str(csv_file), tokenizer=tokenizer, max_length=length)
    assert len(list(cache.rglob("*"))) == 3  # the folder and two files


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    assert store.cache_folder() == tmp_path / "data"
    monkeypatch.delenv("ESPALIER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_folder() == tmp_path / "espalier" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.cache_folder() == Path.home() / ".cache" / "espalier" / "data"


def test_whole_files_splits_orders_and_limits_share_what_was_tokenised(
    csv_file: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_data(str(csv_file), tokenizer=tokenizer, whole=True)
    monkeypatch.setattr(prepare, "open_tokenizer", _no_tokenizer)
    parts = load_data(str(csv_file), tokenizer=tokenizer, seed=3)
    assert {n: len(s) for n, s in parts.splits.items()} == {"train": 32, "validation": 4, "test": 4}
    assert len(load_data(str(csv_file), tokenizer=tokenizer, limit=5, splits=("train",)).split("train")) == 5
    at = {text: row for row, text in enumerate(whole.texts["all"])}
    ids = whole.split("all").inputs["input_ids"]
    for name, split in parts.splits.items():
        for row, text in enumerate(parts.texts[name]):
            mine = split.inputs["input_ids"][row]
            assert np.array_equal(mine[mine != 0], ids[at[text]][ids[at[text]] != 0])


def test_splits_are_padded_to_their_own_longest_text(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na very long and very good text,1\nbad,0\n")
    (tmp_path / "test.csv").write_text("text,label\ngood,1\nbad,0\n")
    data = load_data(str(tmp_path), tokenizer=tokenizer)
    for split in data.splits.values():
        assert split.inputs["attention_mask"].any(axis=0).all()
    assert data.split("test").inputs["input_ids"].shape[1] < data.split("train").inputs["input_ids"].shape[1]


def test_lengths_are_those_before_the_cut(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + f"{'good ' * 30},1\nbad,0\n")
    for length in (4, 8, 128):
        split = load_data(str(tmp_path / "rows.csv"), tokenizer=tokenizer, whole=True, max_length=length).split("all")
        assert split.lengths is not None and sorted(split.lengths.tolist()) == [3, 32]
        assert split.inputs["input_ids"].shape[1] == min(length, 32)


def test_the_last_data_stay_in_memory_until_their_file_changes(
    csv_file: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recent.forget()
    options = LoadOptions(tokenizer=tokenizer)
    first = recent.load_recent(str(csv_file), options)
    assert recent.load_recent(str(csv_file), options) is first
    csv_file.write_text(csv_file.read_text() + "one more,1\n")
    assert sum(len(s) for s in recent.load_recent(str(csv_file), options).splits.values()) == 41
    monkeypatch.setattr(recent, "MAX_BYTES", 1)
    recent.load_recent(str(csv_file), LoadOptions(tokenizer=tokenizer, max_length=9))
    assert len(recent._CACHE) == 1
    recent.forget()


def _captioned(folder: Path, table: str) -> Path:
    folder.mkdir(parents=True)
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(b"first")
    (folder / table).write_text("file_name,caption\na.png,a disc\nb.png,two discs\n")
    return folder


@pytest.mark.parametrize("inner", ["", "train"])
def test_a_changed_image_of_a_table_changes_the_data(tmp_path: Path, inner: str) -> None:
    folder = _captioned(tmp_path / "data" / inner, "metadata.csv")
    spec = str(tmp_path / "data")
    before = recent.signature(spec), recent.content_of(spec)
    if not inner:
        (folder / "other.png").write_bytes(b"not named")
    assert (recent.signature(spec), recent.content_of(spec)) == before and len(before[0]) == 3
    (folder / "b.png").write_bytes(b"another image")
    assert recent.signature(spec) != before[0] and recent.content_of(spec) != before[1]


def test_a_table_of_texts_is_not_read_for_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("text,label\na.png,1\n" + "\0\n" + "x" * 300 + ".png,0\n")
    plain = recent.signature(str(tmp_path / "a.csv"))
    assert len(plain) == 1
    (tmp_path / "photo.png").write_bytes(b"")
    assert recent.signature(str(tmp_path / "a.csv")) == plain
    (tmp_path / "photo.png").unlink()
    monkeypatch.setattr(caption_files, "read_table", _no_tokenizer)
    assert recent.signature(str(tmp_path / "a.csv")) == plain
