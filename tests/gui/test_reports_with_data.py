"""Reports that can use data ask for them where none are known, and remember what they were made with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.grouped_form import GroupedForm
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.transform.calibrate import CalibrateOptions
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui


def forms(window: Window) -> list[OptionsWindow]:
    return [w for w in window.findChildren(OptionsWindow) if not w.isHidden()]


def test_a_report_on_data_asks_where_none_are_known_and_remembers(opened: Window, runner: list[FakeRunner]) -> None:
    tables = opened.docks.tables
    opened.actions_table.run("report_statistics")
    (form,) = forms(opened)
    assert not runner[-1].waiting
    form._form.editor("data").put("demo:digits")  # type: ignore[attr-defined]
    form.apply()
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob) and info.job.step.options.data == "demo:digits"
    runner[-1].finish(Report("statistics", ({"node": "fc1", "mean": 0.5},)))
    tables.wanted.emit("statistics")
    again = runner[-1].waiting[0]
    assert isinstance(again.job, AnalyseJob) and again.job.step.options.data == "demo:digits"
    assert not forms(opened)


def test_without_data_in_the_form_weights_alone_are_looked_at(opened: Window, runner: list[FakeRunner]) -> None:
    opened.docks.tables.wanted.emit("quantization")
    (form,) = forms(opened)
    form.apply()
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob) and info.job.step.options == ObserveOptions()


def test_known_data_are_used_at_once(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner, small_project(data="demo:digits"))
    window.live.enabled = False
    window.actions_table.run("report_statistics")
    info = runner[-1].waiting[-1]
    assert isinstance(info.job, AnalyseJob) and info.job.step.options.data == "demo:digits"


def test_generate_asks_for_the_text_and_shows_it_on_one_line(opened: Window, runner: list[FakeRunner]) -> None:
    opened.actions_table.run("report_generate")
    (form,) = forms(opened)
    assert not runner[-1].waiting
    form._form.editors["prompt"].put("A pear tree")
    form.apply()
    info = runner[-1].waiting[0]
    assert isinstance(info.job, AnalyseJob) and info.job.step.options.prompt == "A pear tree"
    height = opened.height()
    rows = ({"step": 1, "token": "\n", "probability": 0.5, "kl": 0.0},)
    runner[-1].finish(Report("generate", rows, {"text": "\n" * 60, "tokens": 60}))
    assert opened.docks.tables._summary.sizeHint().height() < 40 and opened.height() == height
    model = opened.docks.tables.table.rows
    assert model.data(model.index(0, 1)) == "⏎"


def test_reports_without_data_ask_nothing(opened: Window, runner: list[FakeRunner]) -> None:
    opened.actions_table.run("report_parameters")
    assert not forms(opened) and len(runner[-1].waiting) == 1


def test_what_a_pass_does_stands_before_how_data_is_read(opened: Window) -> None:
    opened.actions_table.run("calibrate")
    (page,) = forms(opened)
    form = page._form
    assert isinstance(form, GroupedForm)
    (first, own), (rest, reading) = form.names
    assert not first.folded and {"data", "select", "ports", "method"} <= set(own)
    assert rest.folded and set(reading) == {"text", "label", "tokenizer", "max_length", "task", "batch_size"}
    words = [label.text() for label in form.forms[""].findChildren(QLabel)]
    assert any(w.startswith("minmax: cover all values") for w in words), "what options mean is told"
    form.folds[rest.title].unfold()
    form.editor("max_length").put(64)
    assert form.value() == replace(CalibrateOptions(), max_length=64)
