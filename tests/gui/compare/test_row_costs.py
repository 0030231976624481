"""What each row of a comparison costs, measured row by row."""

from __future__ import annotations

import csv
import io

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from espalier.app.figures.difference import COST
from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format
from espalier.passes.analysis.change_divergence import RowDivergence
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    PartialResult,
    Started,
    Stopped,
)
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sensitivity.outputs import WORDS
from tests.gui.compare.steps import job_of, shown
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui

INT4 = parse_format("int4")


def measurable(window: Window) -> None:
    """Data for the score, which the fake worker never reads."""
    window.session.measures.options = EvaluateOptions("demo:digits", limit=8)


@pytest.mark.slow
def test_what_each_row_costs_arrives_row_by_row(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    measurable(edited)
    panel = shown(edited, qtbot)
    assert panel.costs.button.isVisible() and COST not in panel.table.rows.columns
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    assert info.job.step.pass_name == "change_divergence" and info.job.base is panel.comparing.result.a
    assert info.job.graph is panel.comparing.result.b and panel.costs.button.text() == "Stop measuring"
    groups = panel.comparing.result.groups
    runner[-1].tell(info, Started())
    index = next(i for i, g in enumerate(groups) if g.kind == "format")
    removed = next(i for i, g in enumerate(groups) if g.kind == "removed")
    panel.table.setCurrentIndex(panel.table.rows.index(1, 0))
    for row in (RowDivergence(index, 0.0125), RowDivergence(removed, None, "The structure differs.")):
        runner[-1].tell(info, PartialResult(row))
    cells = [r[COST] for r in panel.table.rows.shown]
    assert (cells[index], cells[removed]) == (0.0125, "The structure differs")
    assert cells.count("…") == len(groups) - 2 and panel.costs.words.isVisible()
    figures = {"n": 8, "what": WORDS["classes"], "together": 0.5}
    runner[-1].tell(info, Done(Report("change_divergence", (), figures)))
    assert "n = 8 · all rows 0.5" in panel.costs.words.toolTip() and not panel.costs.button.isVisible()
    panel.copy_as("CSV")
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert next(r for r in rows if r["what"] == "weight format")["row_kl"] == "0.0125"
    assert next(r for r in rows if r["what"] == "removed")["row_kl_note"] == "The structure differs."
    edited.session.set_format(["fc2"], "weight", INT4)
    qtbot.waitUntil(lambda: len(panel.table.rows.shown) > len(groups))
    assert COST not in panel.table.rows.columns and panel.costs.button.isVisible(), "other graphs are not measured"


@pytest.mark.slow
def test_measuring_rows_can_be_stopped(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    measurable(edited)
    panel = shown(edited, qtbot)
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    runner[-1].tell(info, Started())
    runner[-1].tell(info, PartialResult(RowDivergence(0, 0.25)))
    panel.costs.button.click()
    if info in runner[-1].waiting:
        runner[-1].tell(info, Stopped())
    assert not panel.comparing.costs.busy and panel.costs.button.text() == "Measure KL"
    assert panel.table.rows.shown[0][COST] == 0.25, "what was measured stays"


def test_rows_show_that_they_are_measured_in_the_pair_that_is(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    """Another pair that is known has nothing to wait for, and can still be measured."""
    measurable(edited)
    panel = shown(edited, qtbot)
    first, costs = panel.comparing.result, panel.comparing.costs
    panel.costs.button.click()
    runner[-1].tell(job_of(runner, AnalyseJob), Stopped())
    edited.session.set_format(["fc2"], "weight", INT4)
    qtbot.waitUntil(lambda: panel.comparing.result is not None and panel.comparing.result is not first)
    second = panel.comparing.result
    assert first is not None and second is not None
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    assert costs.busy and costs.of(first) is None and costs.of(second) is not None
    edited.session.undo()
    qtbot.waitUntil(lambda: panel.comparing.result is not None and panel.comparing.result.b is first.b)
    assert COST not in panel.table.rows.columns
    runner[-1].tell(info, Stopped())
    assert costs.of(second) is None
