"""Sweeps in the window: chosen, drawn point by point, stopped and gone on with, used, kept with the project."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QMenu
from pytestqt.qtbot import QtBot

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.features.sweep.panel import SweepsPanel
from espalier.app.features.sweep.setup import work_text
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.fields import option_of
from espalier.app.widgets.forms.form import PortFormats
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import FileError
from espalier.model.formats.integer import Integer
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    Failed,
    JobInfo,
    PartialResult,
    ReplayJob,
    Started,
    Stopped,
    SweepJob,
)
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome
from espalier.passes.sweep.sweep import Axis, Sweep, points
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui
DATA = EvaluateOptions(data="demo:small")


def quantised(width: int = 8) -> Step:
    return Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(width, 4)}),)))


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SweepsPanel:
    """The panel, with a recipe of one quantisation and a model that knows its data."""
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    quiet(runner)
    window.session.set_recipe(Recipe((quantised(),)), "Quantise")
    window.show_dock("sweeps")
    made = window.docks.panels["sweeps"]
    assert isinstance(made, SweepsPanel)
    return made


def quiet(runner: list[FakeRunner]) -> None:
    """End the jobs that other panels began by themselves."""
    while runner[-1].waiting:
        runner[-1].tell(runner[-1].waiting[0], Stopped())


def sweep_job(runner: list[FakeRunner]) -> JobInfo:
    """The sweep that waits or runs."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, SweepJob))


def outcomes(sweep: Sweep) -> list[Outcome]:
    """What the worker would find: accuracy by the number of the value and the variant."""
    return [
        Outcome(f"key{i}", p.variant, p.x, p.seed, seconds={"evaluate": 2.0}, score={
            "accuracy": 0.9 if p.variant < 0 else 0.5 + p.x / 10 + p.variant / 100 + p.seed / 1000, "loss": 0.3,
            "size_bytes": 1000 + p.x, "weight_bits": 8.0, "samples": 10})
        for i, p in enumerate(points(sweep))
    ]  # fmt: skip


def begin(panel: SweepsPanel, runner: list[FakeRunner], values: str = "4, 6, 8") -> tuple[JobInfo, list[Outcome]]:
    """Run a sweep of the width; the worker has begun."""
    panel.setup.main.choose(0, "width", values)
    panel.setup.run()
    info = sweep_job(runner)
    runner[-1].tell(info, Started())
    assert isinstance(info.job, SweepJob)
    return info, outcomes(info.job.sweep)


def test_an_empty_recipe_gets_an_example(window: Window, runner: list[FakeRunner]) -> None:
    panel = window.docks.panels["sweeps"]
    assert isinstance(panel, SweepsPanel)
    assert panel._pages.currentIndex() == 0 and panel.example_link.isHidden()
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    assert panel._pages.currentIndex() == 0 and not panel.example_link.isHidden()
    panel.example_link.click()
    job = sweep_job(runner).job
    assert isinstance(job, SweepJob) and job.sweep.score.data == "demo:small"
    widths = [p.recipe.steps[0].options.rules[0].formats["weight"] for p in points(job.sweep)[1:]]
    assert widths[0] == Integer(2, 1) and widths[-1] == Integer(16, 15)
    assert panel._pages.currentIndex() == 1 and panel.run is not None
    assert not window.session.recipe.steps  # it is an example: the recipe stays


@pytest.mark.slow
def test_values_are_read_as_they_are_typed(panel: SweepsPanel) -> None:
    field = panel.setup.main
    assert field.place == (0, "rules.0.formats.weight.width")
    field.values.setText("4, 8, 12…32")
    field.values.edited.emit()
    assert field.preview.text() == "8 values: 4, 8, 12, 16, 20, 24, 28, 32" and panel.setup.run_button.isEnabled()
    field.values.setText("4:40:12")
    field.values.edited.emit()
    assert "from 1 to 32" in field.preview.text() and field.preview.property("role") == "wrong"
    assert not panel.setup.run_button.isEnabled()
    panel.setup.run()  # Enter in the field does nothing either
    assert not panel.sweeps.runs


@pytest.mark.slow
def test_the_form_offers_lines_and_counts_the_work(panel: SweepsPanel) -> None:
    session = panel._session
    session.set_recipe(session.recipe.append(replace(quantised(6), enabled=False)), "Again")
    setup = panel.setup
    setup.main.choose(0, "weight.width", "4, 8")
    line = setup.add_line()
    line.choose(1, "", "on, off")
    setup.seeds.put(3)
    setup.update_estimate()
    made = setup.sweep()
    assert len(made.variants) == 2 and made.variants[0].label == "with quantize#2" and made.seeds == (0, 1, 2)
    assert setup._words.text().startswith("13 points · 12 × Evaluate")  # the state where it begins is one of them
    assert "Evaluate not timed yet" in setup._words.text() and setup.score.summary.text() == "Scored on demo:small"
    panel.sweeps.timed["evaluate"] = 2.0
    setup.update_estimate()
    assert setup._words.text().replace("\u2009", " ").endswith("about 24 s")
    along = setup.add_along()
    along.choose(0, "weight.frac_width", "2, 4")
    assert setup.sweep().along == (Axis(0, "rules.0.formats.weight.frac_width", (2, 4)),)
    along.choose(0, "weight.frac_width", "2, 4, 6")
    assert "3 values, the axis 2" in setup._words.text()
    along.removed.emit()
    line.removed.emit()
    assert not setup.lines and setup.along is None and setup.run_button.isEnabled()


def test_work_in_words() -> None:
    runs = {"quantize": 9, "finetune": 9, "evaluate": 19}
    assert work_text(19, runs, 130.0, ()).replace("\u2009", " ") == (
        "19 points · 9 × Fine-tune, 19 × Evaluate · about 2 min 10 s")  # fmt: skip
    assert work_text(1, {"quantize": 1}, 0.0, ("quantize",)) == "1 point"


@pytest.mark.slow
def test_the_curve_grows_point_by_point(panel: SweepsPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info, found = begin(panel, runner)
    assert panel.run and panel.run.running and not panel._stop.isHidden()
    for outcome in found[:3]:
        runner[-1].tell(info, PartialResult(outcome))
    qtbot.waitUntil(lambda: len(panel.points.outcomes) == 3)
    assert [x for x, _ in panel.chart.lines[0]] == [0, 1] and panel.chart.baseline == 0.9
    assert panel._status._text == "3 of 4 points · running"
    assert len(panel.points.table.rows.shown) == 3 and panel.points.table.rows.shown[1]["value"] == 4
    runner[-1].tell(info, PartialResult(found[3]))
    runner[-1].tell(info, Done(4))
    assert len(panel.points.outcomes) == 4 and not panel.run.running and panel._rerun_link.isHidden()
    assert "baseline" in panel._legend.text() and panel._status._text == "4 of 4 points"
    assert panel.sweeps.timed["evaluate"] == 2.0
    assert [panel._figure.itemText(i) for i in range(panel._figure.count())] == [
        "accuracy", "loss", "size", "weight bits"]  # fmt: skip
    panel._figure.put("size_bytes")
    panel.refresh()
    assert panel.chart.figure == "size_bytes" and panel.chart.lines[0][2][1].mean == 1002


@pytest.mark.slow
def test_a_point_is_clicked_and_its_recipe_used(panel: SweepsPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info, found = begin(panel, runner)
    for outcome in found:
        runner[-1].tell(info, PartialResult(outcome))
    runner[-1].tell(info, Done(4))
    panel.chart.resize(600, 260)
    qtbot.waitUntil(lambda: panel.chart.viewport().width() > 500)
    spot = panel.chart.spot(2, found[3].score["accuracy"]).toPoint()
    assert panel.chart.near(spot.toPointF()) == (0, 2) and panel.chart.near(QPoint(2, 2).toPointF()) is None
    assert "width 8" in panel.chart.hover_text_at(0, 2) and "70 %" in panel.chart.hover_text_at(0, 2)
    QTest.mouseClick(panel.chart.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert (
        panel.points.picked is found[3]
        and panel.chart.picked == (0, 2)
        and panel.points.table.currentIndex().row() == 3
    )
    panel.points.table.setCurrentIndex(panel.points.table.rows.index(1, 0))
    assert panel.points.picked is found[1] and panel.points.use.isEnabled()
    assert panel.points.words.text() == "weight width 4"
    session = panel._session
    panel.points.use.click()
    assert session.recipe.steps[0].options.rules[0].formats["weight"] == Integer(4, 4)
    assert session.document and session.document.undo_label == "Use weight width 4"
    assert session.score.accuracy == found[1].score["accuracy"]  # known, so nothing is measured again
    assert not [j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob)]
    session.undo()
    assert session.recipe == Recipe((quantised(),))


@pytest.mark.slow
def test_a_stopped_sweep_keeps_its_points_and_goes_on(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    info, found = begin(panel, runner)
    for outcome in found[:2]:
        runner[-1].tell(info, PartialResult(outcome))
    panel._stop.click()
    assert info.state == "stopped" and panel.run and not panel.run.running
    assert len(panel.points.outcomes) == 2 and not panel._rerun_link.isHidden() and panel.run.missing == 2
    panel._rerun_link.click()
    again = sweep_job(runner)
    assert again is not info and isinstance(again.job, SweepJob) and again.job.outcomes == tuple(found[:2])
    assert len(panel.sweeps.runs) == 1
    runner[-1].tell(again, Started())
    panel._after.click()
    assert runner[-1].kept == [again.id]


def test_a_dead_worker_and_failed_points_are_told(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    info, found = begin(panel, runner)
    bad = Outcome("k", 0, 0, 0, {}, "Step 1 (quantize): It failed.", "Do not.")
    runner[-1].tell(info, PartialResult(found[0]))
    runner[-1].tell(info, PartialResult(bad))
    runner[-1].tell(info, Failed("The worker process ended unexpectedly.", "Run it again."))
    assert panel._wrong.text() == "The worker process ended unexpectedly. The points so far are kept."
    assert panel._status._text == "2 of 4 points · 1 failed" and panel.run and panel.run.missing == 3
    panel.points.choose(bad)
    assert (
        panel.points.words.text() == "weight width 4: Step 1 (quantize): It failed. Do not."
        and not panel.points.use.isEnabled()
    )
    assert panel.points.table.rows.shown[1]["error"] == "Step 1 (quantize): It failed."


@pytest.mark.slow
def test_other_jobs_go_between_two_points(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    info, found = begin(panel, runner)
    panel._session.evaluate()
    waiting = next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob))
    runner[-1].tell(info, PartialResult(found[0]))
    assert runner[-1].kept == [info.id]  # the sweep is asked to end after its point …
    runner[-1].tell(info, Done(1))
    again = sweep_job(runner)
    assert again is info and panel.run and panel.run.running  # … and stands behind the job that waited
    assert runner[-1].waiting.index(waiting) < runner[-1].waiting.index(again)
    runner[-1].tell(again, Started())
    panel._stop.click()
    assert not panel.run.running and not [j for j in runner[-1].waiting if isinstance(j.job, SweepJob)]


def test_the_same_sweep_does_not_run_twice_at_once(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    begin(panel, runner)
    told: list[object] = []
    panel._session.problem.connect(told.append)
    panel.setup.run()
    assert "runs already" in str(told[0]) and len(panel.sweeps.runs) == 1


def test_sweeps_are_kept_with_the_project(
    panel: SweepsPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    info, found = begin(panel, runner)
    runner[-1].tell(info, PartialResult(found[0]))
    runner[-1].tell(info, PartialResult(found[1]))
    runner[-1].tell(info, Stopped())
    document = window.session.document
    assert document and document.dirty and window.isWindowModified()
    extras = document.project.extras
    assert list(extras) == ["sweeps/001.jsonl"]
    held = journal.load(extras["sweeps/001.jsonl"].decode())
    assert held.outcomes == tuple(found[:2]) and held.sweep == panel.run.sweep if panel.run else False
    quiet(runner)
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert panel.run and panel.run.sweep == held.sweep and panel.points.outcomes == found[:2]
    assert not window.session.document.dirty and not panel._rerun_link.isHidden()
    panel._remove.click()
    assert not panel.sweeps.runs and not window.session.document.project.extras and window.session.document.dirty


def test_closing_the_document_forgets_its_sweeps(panel: SweepsPanel, runner: list[FakeRunner], window: Window) -> None:
    info, found = begin(panel, runner)
    runner[-1].tell(info, PartialResult(found[0]))
    window.session.close()
    assert info.state == "stopped" and not panel.sweeps.runs and panel._pages.currentIndex() == 0


def test_sweeps_are_exported(panel: SweepsPanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    panel.setup.seeds.put(2)
    info, found = begin(panel, runner)
    for outcome in found:
        runner[-1].tell(info, PartialResult(outcome))
    runner[-1].tell(info, Done(7))
    assert panel.chart.lines[0][0][1].std > 0 and "over 2 seeds" in panel.chart.hover_text_at(0, 0)
    for ending in ("png", "svg", "csv"):
        panel.export(tmp_path / f"s.{ending}")
    assert QImage(str(tmp_path / "s.png")).width() == 1520
    assert ET.parse(tmp_path / "s.svg").getroot().tag.endswith("svg")
    with (tmp_path / "s.csv").open() as handle:
        table = list(csv.DictReader(handle))
    name = "quantize.rules.0.formats.weight.width"
    assert len(table) == 7 and table[1][name] == "4" and table[1]["accuracy"] == "0.5"
    with pytest.raises(FileError, match="No such file"):
        panel.export(tmp_path / "missing" / "s.csv")


@pytest.mark.slow
def test_themes_recolour_the_curves(panel: SweepsPanel, runner: list[FakeRunner], window: Window) -> None:
    light = panel.chart.colour(0)
    window.appearance.set_mode("dark")
    assert panel.chart.look.dark and panel.chart.colour(0) != light


# -- the recipe panel


def recipe_panel(window: Window) -> RecipePanel:
    found = window.docks.panels["recipe"]
    assert isinstance(found, RecipePanel)
    return found


def test_a_step_is_swept_from_the_recipe(panel: SweepsPanel, window: Window, qtbot: QtBot) -> None:
    session, steps = window.session, recipe_panel(window)
    session.set_recipe(session.recipe.append(quantised(4)), "More")
    steps.view.setCurrentIndex(steps.model.index(1))
    steps.view.setFocus()
    QTest.keyClick(steps.view, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    assert panel.setup.main.place and panel.setup.main.place[0] == 0
    steps.view.setCurrentIndex(steps.model.index(2))
    steps._menu(QPoint(5, 5))
    menu = steps.findChildren(QMenu)[-1]
    next(a for a in menu.actions() if a.text().startswith("Sweep this")).trigger()
    menu.close()
    assert panel.setup.main.place[0] == 1 and not panel.visibleRegion().isEmpty()


def test_steps_are_duplicated_copied_and_pasted(panel: SweepsPanel, window: Window) -> None:
    session, steps = window.session, recipe_panel(window)
    steps.view.setCurrentIndex(steps.model.index(1))
    ctrl = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(steps.view, Qt.Key.Key_D, ctrl)
    assert session.recipe.steps == (quantised(), quantised())
    QTest.keyClick(steps.view, Qt.Key.Key_C, ctrl)
    assert json.loads(QGuiApplication.clipboard().text())["steps"][0]["pass"] == "quantize"
    QGuiApplication.clipboard().setText(
        "{'quantize_transform_pass': {'by': 'type', 'linear': {'config': {'name': 'integer', 'weight_width': 5}}}}"
    )
    QTest.keyClick(steps.view, Qt.Key.Key_V, ctrl)
    assert len(session.recipe) == 3 and session.recipe.steps[1].options.rules[0].formats["weight"].width == 5
    session.undo()
    assert len(session.recipe) == 2
    told: list[object] = []
    session.problem.connect(told.append)
    QGuiApplication.clipboard().setText("nothing of the kind")
    QTest.keyClick(steps.view, Qt.Key.Key_V, ctrl)
    assert "no recipe" in str(told[0]) and len(session.recipe) == 2


def test_a_recipe_is_loaded_from_a_file(panel: SweepsPanel, window: Window, tmp_path: Path) -> None:
    path = tmp_path / "labs.json"
    config = {"name": "integer", "weight_width": 3, "weight_frac_width": 1}
    path.write_text(json.dumps({"quantize_transform_pass": {"by": "type", "linear": {"config": config}}}))
    window.services.opening.open_path(path)  # as a drop does
    assert window.session.recipe.steps[-1].options.rules[0].formats["weight"] == Integer(3, 1)
    path.write_text("{}")
    window.services.opening.open_path(path)
    assert not window.banner.isHidden()
    assert len(window.session.recipe) == 2


def test_a_failed_edit_leaves_the_earlier_steps(panel: SweepsPanel, window: Window, runner: list[FakeRunner]) -> None:
    from espalier.passes.choices.prune import PruneOptions

    session, steps = window.session, recipe_panel(window)
    session.run_pass("prune", PruneOptions(0.5))
    info = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("Step 2 (prune): It failed.", "Do not."))
    assert session.recipe == Recipe((quantised(),))
    last = steps.model.lines[-1]
    assert last.error == "Step 2 (prune): It failed." and last.title == "Not applied"
    assert [line.title for line in steps.model.lines[:2]] == ["Trace", "Quantise"]


def test_a_journal_of_a_newer_version_stays_in_the_file(window: Window, runner: list[FakeRunner]) -> None:
    text = journal.dump(Journal(Sweep(Recipe((quantised(),)), Axis(0, "width", (4,))))).decode()
    newer = text.replace('"version":1', '"version":9').encode()
    open_small(window, runner, replace(small_project(), extras={"sweeps/001.jsonl": newer}))
    panel = window.docks.panels["sweeps"]
    assert isinstance(panel, SweepsPanel) and not panel.sweeps.runs
    window.session.set_recipe(Recipe((quantised(),)), "Quantise")
    window.show_dock("sweeps")
    begin(panel, runner)
    panel.sweeps.write()
    extras = window.session.document.project.extras if window.session.document else {}
    assert extras["sweeps/001.jsonl"] == newer and "sweeps/002.jsonl" in extras


def test_an_option_is_swept_from_its_form(panel: SweepsPanel, window: Window) -> None:
    window.services.forms.edit_step(0)
    form = window.findChildren(OptionsWindow)[-1]
    editor = form.findChildren(PortFormats)[0].rows["weight"]
    assert option_of(editor.widgets["frac_width"], form) == "rules.formats.weight.frac_width"
    assert option_of(editor.choice, form) == "rules.formats.weight" and option_of(form._error, form) == ""
    caption = next(c for c in form.findChildren(QLabel) if c.text() == "gradient")
    at = caption.mapTo(form, QPoint(3, 3))
    form.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, form.mapToGlobal(at)))
    menu = form.findChildren(QMenu)[-1]
    assert [a.text() for a in menu.actions()] == ["Sweep gradient…"]
    menu.actions()[0].trigger()
    menu.close()
    assert panel.setup.main.place == (0, "rules.0.gradient") and panel.setup.run_button.isEnabled()
    form.sweep_wanted.emit("rules.formats.weight.frac_width")
    assert panel.setup.main.preview.text() == "9 values: 0, 1, 2, 3, 4, 5, 6, 7, 8"
    form.close()
    window.services.forms.ask("prune")
    other = window.findChildren(OptionsWindow)[-1]
    assert not other.sweepable  # it is no step yet
    other.close()


def test_a_recipe_is_repeated_as_it_is(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    panel.setup.repeat_link.click()
    info = sweep_job(runner)
    assert isinstance(info.job, SweepJob) and info.job.sweep.axis is None and info.job.sweep.seeds == (0, 1, 2)
    assert info.job.sweep.recipe == Recipe((quantised(),)) and panel.setup.seeds.get() == 3
    for outcome in outcomes(info.job.sweep):
        runner[-1].tell(info, PartialResult(outcome))
    runner[-1].tell(info, Done(4))
    assert "50.1 % ± 0.1 %" in panel._legend.text() and "over 3 seeds" in panel._legend.text()
    assert (
        [r["seed"] for r in panel.points.table.rows.shown] == [0, 0, 1, 2]
        and panel.run
        and panel.run.title == "3 seeds"
    )
    panel.points.choose(panel.points.outcomes[2])
    assert panel.points.words.text() == "seed 1"


def test_a_sweep_goes_on_with_the_points_that_are_left(panel: SweepsPanel, runner: list[FakeRunner]) -> None:
    info, found = begin(panel, runner)
    panel._session.evaluate()
    runner[-1].tell(info, PartialResult(found[0]))
    runner[-1].tell(info, Done(1))
    assert info.state == "waiting" and isinstance(info.job, SweepJob) and info.job.outcomes == (found[0],)


def test_a_recipe_is_looked_through_only_where_somebody_sees_it(
    panel: SweepsPanel, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[int] = []
    offer = panel.setup.offer
    monkeypatch.setattr(panel.setup, "offer", lambda recipe: (offered.append(len(recipe)), offer(recipe)))
    window.show_dock("data")
    window.session.set_recipe(Recipe((quantised(), quantised())), "Quantise twice")
    assert not offered
    window.services.forms.sweep_step(1)
    assert set(offered) == {2} and panel.setup.main.axis().step == 1
