"""Which choices decide, computed beside the window."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.figures.study.importance_process import importances
from tests.gui.search.made_study import choices
from tests.gui.study_plots.shown import show

pytestmark = pytest.mark.gui


def asked(values: list[list[float]], goal: list[float], method: str) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Two choices: a category and a number."""
    spaces = {"kind": {"values": [0, 1, 2]}, "share": {"low": 0.0, "high": 1.0, "log": False, "whole": False}}
    about = {"choices": spaces, "goals": ["loss"], "method": method, "rows": len(goal)}
    return about, {"kind": values[0], "share": values[1], "goal loss": goal}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ped", "fanova"])
def test_what_decides_has_the_largest_share(method: str) -> None:
    luck = np.random.default_rng(0)
    kind, share = luck.integers(0, 3, 200).astype(float), luck.random(200)
    found = importances(*asked([kind.tolist(), share.tolist()], (share**2 + 0.05 * kind).tolist(), method))["loss"]
    assert found["share"] > 0.7 and found["kind"] < 0.3


@pytest.mark.slow
def test_importance_is_computed_beside_the_window(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 80, "Importance")
    assert chart.busy and not chart.importances
    qtbot.waitUntil(lambda: bool(chart.importances) or bool(chart.problem), timeout=60_000)
    assert not chart.problem and set(chart.importances) == {"accuracy", "weight_bits"}
    assert (
        chart.rows()[0]
        and max(chart.importances["accuracy"], key=lambda n: chart.importances["accuracy"][n]) == "sparsity"
    )
    assert "80" not in chart.legend() and "complete trials" in chart.legend()
    assert len(chart.table()[1]) == len(choices())


def test_importance_asks_for_more_trials_and_stops_when_it_is_hidden(board: StudyBoard) -> None:
    chart = show(board, 6, "Importance")
    assert "needs 10 complete trials" in board.tiles[0]._words.text()
    chart = show(board, 60, "Importance")
    assert chart.busy
    board.tiles[0].show_kind("History")
    assert not chart.busy


def test_what_is_asked_of_the_process_is_what_the_trials_chose(board: StudyBoard) -> None:
    chart = show(board, 40, "Importance")
    head, _, columns = chart._job_input().partition(b"\n")
    about = json.loads(head)
    table = np.frombuffer(columns).reshape(len(about["choices"]) + 2, about["rows"])
    done = [t for t in board.study.trials if t.state == "complete"]
    assert about["rows"] == len(done) and (table[-2] == [-t.values[0] for t in done]).all()
    assert (table[list(about["choices"]).index("sparsity")] == [t.params["sparsity"] for t in done]).all()
