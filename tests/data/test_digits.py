"""The digits: real, scaled to 0…1, stratified, and split the same way for a seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from espalier.model.data import digits
from espalier.model.data.digits import SEED, SIZES, load_digits
from espalier.model.data.loading import load_data
from espalier.model.errors import DataError


def test_shapes_and_scale() -> None:
    data = load_data("demo:digits")
    assert data.kind == "image" and len(data.classes) == 10 and data.texts == {}
    assert {name: len(split) for name, split in data.splits.items()} == SIZES
    x = data.split("train").inputs["x"]
    assert x.shape == (1257, 1, 8, 8) and x.dtype == np.float32 and x.min() == 0 and x.max() == 1


def test_stratified() -> None:
    for split in load_digits().values():
        share = np.bincount(split.labels, minlength=10) / len(split)
        assert np.abs(share - 0.1).max() < 0.012


def test_the_seed_decides_and_no_row_is_lost() -> None:
    one, same, other = load_digits(1), load_digits(1), load_digits(2)
    assert all(np.array_equal(one[name].inputs["x"], same[name].inputs["x"]) for name in one)
    assert not np.array_equal(one["test"].inputs["x"], other["test"].inputs["x"])
    assert sum(len(split) for split in one.values()) == 1797


@pytest.mark.parametrize("seed", [SEED, 0, 1, 2, 3])
def test_samples_and_splits_are_those_of_scikit_learn(seed: int) -> None:
    """Equal in every row, so that figures measured on either stay comparable."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    raw = datasets.load_digits()
    rows, want = np.arange(len(raw.target)), {}
    want["train"], rest = train_test_split(rows, train_size=1257, stratify=raw.target, random_state=seed)
    want["validation"], want["test"] = train_test_split(
        rest, train_size=270, stratify=raw.target[rest], random_state=seed
    )
    for name, split in load_digits(seed).items():
        assert np.array_equal(split.labels, raw.target[want[name]]) and split.labels.dtype == np.int64
        assert np.array_equal(split.inputs["x"][:, 0], (raw.images[want[name]] / 16).astype(np.float32))


def test_loading_takes_no_scikit_learn() -> None:
    """Its import takes seconds, which each process that opens the demo would pay."""
    code = "import sys; from espalier.model.data.digits import load_digits; load_digits()"
    code += "; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_where_its_file_has_moved_scikit_learn_gives_the_same_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    want = load_digits()
    monkeypatch.setattr(digits, "FILE", "datasets/data/moved.csv.gz")
    for name, split in load_digits().items():
        assert np.array_equal(split.inputs["x"], want[name].inputs["x"])
        assert np.array_equal(split.labels, want[name].labels) and split.labels.dtype == np.int64


def test_without_scikit_learn_the_digits_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda _: None)
    with pytest.raises(DataError, match="not installed") as found:
        load_digits()
    assert "scikit-learn" in found.value.hint


def test_digits_that_scikit_learn_cannot_read_are_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn import datasets

    def fails(**_: object) -> None:
        raise FileNotFoundError("digits.csv.gz")

    monkeypatch.setattr(digits, "FILE", "datasets/data/moved.csv.gz")
    monkeypatch.setattr(datasets, "load_digits", fails)
    with pytest.raises(DataError, match=r"digits\.csv\.gz"):
        load_digits()
