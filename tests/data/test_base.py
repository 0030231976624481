"""Splits and data sets: cutting, batching, and fitting a model's input names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from espalier.model.data.base import SOURCES, DataSource, Split, TaskData
from espalier.model.data.loading import load_data
from espalier.model.errors import DataError

SPLIT = Split({"x": np.arange(10.0)}, np.arange(10))


def test_take() -> None:
    assert len(SPLIT.take(3)) == 3 and SPLIT.take(None) is SPLIT and SPLIT.take(99) is SPLIT
    assert SPLIT.take(3).inputs["x"].tolist() == [0, 1, 2]


def test_batches_cover_all_in_order() -> None:
    parts = list(SPLIT.batches(4))
    assert [len(labels) for _, labels in parts] == [4, 4, 2]
    assert np.concatenate([inputs["x"] for inputs, _ in parts]).tolist() == list(range(10))


def test_an_unknown_split_names_those_there_are() -> None:
    with pytest.raises(DataError) as error:
        TaskData("mine", "image", ("a", "b"), {"train": SPLIT}, {}).split("test")
    assert "train" in error.value.hint


@pytest.mark.parametrize("spec", ["demo:nothing", "/does/not/exist.csv", "nonsense"])
def test_unknown_data(spec: str) -> None:
    with pytest.raises(DataError) as error:
        load_data(spec)
    assert error.value.hint


@pytest.mark.parametrize(("option", "value"), [("limit", 0), ("max_length", 1)])
def test_impossible_options(option: str, value: int) -> None:
    with pytest.raises(DataError):
        load_data("demo:digits", **{option: value})  # type: ignore[arg-type]


@pytest.mark.slow
def test_demo_reviews_with_limit_and_splits() -> None:
    data = load_data("demo:reviews", limit=20, splits=("test",), max_length=12)
    assert list(data.splits) == ["test"]
    split = data.split("test")
    ids, mask = split.inputs["input_ids"], split.inputs["attention_mask"]
    assert ids.shape == mask.shape == (20, 12) and ids.dtype == mask.dtype == np.int64
    assert (ids[:, 0] == 2).all() and len(data.texts["test"]) == 20
    assert np.array_equal(mask == 0, ids == 0)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"test": 1}, "The data source odd returned a dict"),
        (
            TaskData("odd:a", "image", ("0",), {"test": Split({"x": np.zeros((4, 2))}, np.zeros(3, np.int64))}, {}),
            "The split test of odd:a has 4 samples of x and 3 labels",
        ),
    ],
)
def test_what_a_source_makes_wrongly_is_told(made: Any, told: str) -> None:
    SOURCES.add("odd", DataSource(lambda name, options: made))
    try:
        with pytest.raises(DataError, match=told):
            load_data("odd:a")
    finally:
        SOURCES.remove("odd")
