"""Texts of compared scores: every figure of every task has a title, units and signs."""

from __future__ import annotations

import pytest

import espalier as es
from espalier.app.figures import difference
from espalier.app.figures.difference import score_rows, title_of
from espalier.passes.comparison.scores import BETTER, ScoreRow
from espalier.passes.tasks.base import all_metrics


@pytest.mark.parametrize("name", sorted({*BETTER, *all_metrics()}))
def test_every_figure_of_every_task_has_its_row(name: str) -> None:
    (row,) = score_rows([ScoreRow(name, 0.5, 0.25, "worse", (0.4, 0.6), (0.2, 0.3), 0.1, "paired t", 0.01, 20)])
    assert row["figure"] == title_of(name) and row["verdict"] == "worse"
    metric = all_metrics().get(name)
    if name == "accuracy" or (metric and metric.share):
        assert (row["A"], row["B"], row["B − A"]) == ("50.0\u2009% ±10.0", "25.0\u2009% ±5.0", "−25.0 ±10.0")
    elif metric and name != "loss":
        assert (row["A"], row["B"], row["B − A"]) == ("0.5 ±0.1", "0.25 ±0.05", "−0.25 ±0.1")
    assert difference.test_words([ScoreRow(name, 0.5, 0.25, "worse", test="paired t", p=0.01, n=20)]).endswith(
        "t-test p = 0.01"
    )


@pytest.mark.slow
def test_language_models_are_compared() -> None:
    a = es.open("demo:stories")
    b = a.copy().quantize("linear", weight="int4")
    found = es.diff(a, b, data="demo:stories")
    rows = {line.split("  ")[0] for line in str(found).splitlines()}
    assert {"accuracy", "perplexity", "bits per byte", "loss", "size"} <= rows
