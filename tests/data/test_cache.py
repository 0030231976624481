"""Tokenised once: a second load reads the cache; other content, options or tokenizers do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from model.data import cache as store
from model.data import prepare
from model.data.base import TaskData, load_data


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
