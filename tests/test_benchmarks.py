"""The table of benchmarks: every target leads to a figure of its benchmark, and the worst of several counts."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.record import RESULTS
from tests.benchmarks.table import Target, figures, table


@pytest.mark.parametrize("figure", figures(), ids=lambda f: f"{f.benchmark}: {f.path}")
def test_a_target_names_a_figure_of_a_kept_result(figure: Target) -> None:
    assert figure.value(json.loads((RESULTS / f"{figure.benchmark}.json").read_text())) is not None


def test_the_worst_of_several_counts() -> None:
    data = {"a": {"ratio": 1.0}, "b": {"ratio": 1.3, "note": "text"}, "c": 4}
    most, least = Target("x", "", "*/ratio", "×", 1.2), Target("x", "", "*/ratio", "×", 1.0, least=True)
    assert most.value(data) == 1.3 and not most.met(1.3)
    assert least.value(data) == 1.0 and least.met(1.0)
    assert Target("x", "", "none/ratio", "×", 1.2).value(data) is None


def test_a_row_shows_record_present_value_and_verdict() -> None:
    record = {"date": "2026-11-21", "machine": "m", "bert_base": {"ratio": 0.9}}
    now = {"date": "2026-11-24", "machine": "m", "bert_base": {"ratio": 1.38}}
    row = next(
        line for line in table({"trace": record}, {"trace": now}).splitlines() if "bare torch.export, clock" in line
    )
    assert "0.9× (2026-11-21) | 1.38× | ≤ 1.15× | **no** |" in row
    assert "stopped after 1 min" in table({}, {"trace": "stopped after 1 min"})
