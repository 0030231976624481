"""The baseline is named beside the score, can be another state, and a change within noise is no gain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from espalier.app.features.score.causes import Causes
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe
from espalier.model.formats.base import parse_format
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import Report
from espalier.passes.dominant import dominant
from espalier.passes.figure import hits_of
from espalier.passes.jobs.kinds import AnalyseJob
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.bert import KEY, QUERY, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui

DATA = EvaluateOptions(data="some.csv")
INT4 = parse_format("integer(width=4, frac_width=3)")


def summary(right: int, of: int = 270) -> dict[str, Any]:
    hits = [i < right for i in range(of)]
    return {"accuracy": right / of, "loss": 0.3, "n": of, "hits": hits_of(hits), "guessing": 0.1}


@pytest.fixture
def edited(window: Window, runner: list[FakeRunner]) -> Window:
    """A model with one format, whose float is right 264 times of 270."""
    open_bert(window.session, runner)
    window.live.enabled = False
    window.session.record_score(Recipe(), DATA, summary(264))
    window.session.set_format((KEY,), "weight", INT4)
    return window


def test_a_change_within_noise_is_neither_good_nor_bad(edited: Window) -> None:
    session, figure = edited.session, edited.status.score.figures["accuracy"]
    session.record_score(session.recipe, DATA, summary(266))
    QApplication.processEvents()
    figure.lay_out(brief=False, minimum=0)
    assert figure.text.endswith("+0.7 within noise") and figure._change.property("tone") == "same"
    assert "n = 270" in figure.toolTip() and "95\u2009% interval" in figure.toolTip()
    assert "+0.7 points from opened, within noise (McNemar, p = 0.5)" in figure.toolTip()
    session.record_score(session.recipe, DATA, summary(200))
    QApplication.processEvents()
    assert figure.text.endswith("−23.7") and figure._change.property("tone") == "bad"


def test_guessing_says_so(edited: Window) -> None:
    session, figure = edited.session, edited.status.score.figures["accuracy"]
    session.record_score(session.recipe, DATA, summary(27))
    QApplication.processEvents()
    figure.lay_out(brief=False, minimum=0)
    assert "not above guessing (10.0\u2009%)" in figure.toolTip()


def test_the_baseline_is_named_and_can_be_a_pinned_state(edited: Window, runner: list[FakeRunner]) -> None:
    session, score = edited.session, edited.status.score
    choice = score.baseline
    assert choice.text() == "changes from opened" and not choice.isHidden()
    session.record_score(session.recipe, DATA, summary(200))
    choice.fill()
    assert [a.text() for a in choice.choices.actions() if a.text()] == ["opened", "Pin the current state"]
    choice.pin()
    assert choice.text() == "changes from pin 1" and session.compared.recipe == session.recipe
    pinned = session.compared.graph
    session.set_format((QUERY,), "weight", INT4)
    session.record_score(session.recipe, DATA, summary(100))
    QApplication.processEvents()
    assert score.figures["accuracy"].text.endswith("−37.0"), "from 200 of 270, no longer from 264"
    session.evaluate(DATA)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, AnalyseJob) and job.base is pinned
    assert isinstance(job.step.options, ComparedOptions) and job.step.options.baseline == "pin 1"
    runner[-1].finish(Report("evaluate", (), {**summary(100), "kl": 0.5, "baseline": "pin 1"}))
    QApplication.processEvents()
    assert score.figures["kl"].text == "0.5 measured, from pin 1"
    edited.live.enabled = True
    session.compare_with(None)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, AnalyseJob) and isinstance(job.step.options, DivergenceOptions)
    assert job.base is session.open_document.project.base and job.step.options.baseline == "opened"
    runner[-1].finish(Report("divergence", (), {"kl": 0.7, "baseline": "opened"}))
    QApplication.processEvents()
    assert score.figures["kl"].text == "0.7 measured, from opened" and choice.text() == "changes from opened"
    edited.live.enabled = False


def test_what_holds_the_average_of_bits_stands_beside_it(window: Window, runner: list[FakeRunner]) -> None:
    """Four bits on all Linears of a small BERT: its tables, still in float, hold the average up."""
    open_bert(window.session, runner)
    window.live.enabled = False
    session, figure = window.session, window.status.score.figures["weight_bits"]
    assert "·" not in figure._label.text()
    linear = [n.id for n in session.open_document.graph if n.op == "linear"]
    session.set_format(linear, "weight", INT4)
    QApplication.processEvents()
    figure.lay_out(brief=False, minimum=0)
    found = dominant(session.open_document.graph)
    assert found is not None and found.kind == "embedding"
    assert figure._label.text().replace("\u2009", " ") == f"weight bits · embedding {100 * found.share:.0f} %"
    assert "of the stored bits" in figure.toolTip()


def test_nodes_that_bitops_leave_out_are_named_beside_them(window: Window, runner: list[FakeRunner]) -> None:
    """A product without a count in place of a layer: the figure says that it is incomplete, and what is missing."""
    open_bert(window.session, runner)
    window.live.enabled = False
    session, figure = window.session, window.status.score.figures["bitops"]
    assert "·" not in figure._label.text()
    graph = session.open_document.graph
    node = next(n for n in graph if n.op == "linear")
    unknown = graph.replace(replace(node, op="cdist", target="aten.cdist.default"))
    figure.name_cause(Causes().of(unknown)["bitops"])
    figure.lay_out(brief=False, minimum=0)
    assert figure._label.text() == "BitOPs · incomplete"
    assert f"leave out {node.id} (cdist), whose multiplications are not known" in figure.toolTip()
