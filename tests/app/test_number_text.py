"""Figures in words: why a layer has no SQNR."""

from __future__ import annotations

import math

import pytest
import torch

from espalier.app.commands import console
from espalier.app.number_text import cell, percents, row_value
from espalier.model.formats.integer import Integer
from espalier.passes.observed.difference import compare


@pytest.mark.parametrize(
    ("value", "told"), [(math.nan, "no signal"), (math.inf, "no signal"), (0, "exact"), (0.5, "exact")]
)
def test_a_tensor_without_finite_values_is_not_called_exact(value: float, told: str) -> None:
    row = compare(Integer(8, 4), torch.full((4, 4), float(value))).row()
    assert (row["sqnr_db"], row["max_error"]) == (None, 0.0) and row_value(row, "sqnr_db") == told


def test_a_row_of_before_and_after_says_of_both_why_they_have_no_ratio() -> None:
    row = {"sqnr_before_db": None, "sqnr_db": None, "max_error_before": 0.5, "max_error": 0.0, "elements": 4}
    assert (row_value(row, "sqnr_before_db"), row_value(row, "sqnr_db")) == ("no signal", "exact")
    assert row_value({**row, "elements": 0}, "sqnr_db") == "no signal"


def test_a_row_whose_last_column_has_no_name_keeps_its_gaps() -> None:
    assert (
        row_value({"ratio": None, "": "a note"}, "ratio") is None
    )  # what has no ratio to tell is not without a signal


def test_thousands_stand_apart_also_in_fractions() -> None:
    assert [cell(v) for v in (2537.6, 1737.0, 59_440.2, 999.96)] == ["2\u2009538", "1\u2009737", "59\u2009440", "1000"]
    assert [console.cell(v) for v in (25_856.0, 59_440.2, 999.9, 2e9)] == [
        "25\u2009856",
        "59\u2009440",
        "999.9",
        "2e+09",
    ]


@pytest.mark.parametrize(
    ("values", "spacing", "told"),
    [
        ((0.919, 0.9195, 0.92), 0.0005, ["91.90", "91.95", "92.00"]),
        ((0.919, 0.92), 0.001, ["91.9", "92.0"]),
        ((0.9, 0.95), 0.05, ["90", "95"]),
    ],
)
def test_labels_of_an_axis_of_shares_are_told_apart(values: tuple[float, ...], spacing: float, told: list[str]) -> None:
    assert [t.removesuffix("\u2009%") for t in percents(values, spacing)] == told
