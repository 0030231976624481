"""The Training panel: options in folds, the estimate, the run with its buttons, going on with what was broken off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from espalier.app.features.training import panel as module
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.features.training.state import last_options as training_memory
from espalier.app.features.training.state.run_text import estimate_text, result_text
from espalier.app.features.training.trainable_selection import EXCEPT, SELECTED
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.training_groups import GROUPS
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.passes.base import Report, StepResult
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    Failed,
    JobInfo,
    Metric,
    Progress,
    ReplayJob,
    ReplayResult,
    Started,
    Stopped,
)
from espalier.passes.select import Select
from espalier.passes.training.checkpoint_folders import InterruptedRun
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.transform.finetune import UNHELPED
from tests.gui.conftest import FakeRunner, open_small, small_graph, small_project
from tests.patience import PatientBot, budget

pytestmark = pytest.mark.gui
ESTIMATE = {"seconds": 250.0, "steps": 7080, "trainable_parameters": 612_000, "parameters": 4_400_000,
            "formats": 12, "masks": 8}  # fmt: skip
ROWS: tuple[dict[str, Any], ...] = (
    {"step": 0, "validation_accuracy": 0.9}, {"step": 250, "validation_accuracy": 0.925}
)  # fmt: skip
SUMMARY = {"ended": "finished", "steps": 250, "kept_step": 250, "validation_accuracy": 0.925, "seconds": 12.0}


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checkpoints and remembered options in folders of the test's own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    folder = tmp_path / "remembered"
    folder.mkdir()
    monkeypatch.setattr(training_memory, "data_folder", lambda name: folder)
    yield


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> TrainingPanel:
    """The panel of the window with the small model, in front."""
    open_small(window, runner, small_project(data="demo:digits"))
    window.live.enabled = False
    window.actions_table.run("finetune")
    found = window.docks.panels["training"]
    assert isinstance(found, TrainingPanel)
    return found


def plain(text: str) -> str:
    return text.replace("\u2009", " ")


def begun(panel: TrainingPanel, runner: list[FakeRunner]) -> JobInfo:
    """A training that has told its first figures."""
    panel.train.click()
    info = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(40, 250, "training"))
    runner[-1].tell(info, Metric("training loss", 40, 0.5))
    panel.run.refresh()
    return info


def ended(info: JobInfo) -> ReplayResult:
    report = Report("finetune", ROWS, SUMMARY)
    return ReplayResult(small_graph(), (StepResult(small_graph(), report, 12.0),), {})


# -- options


def test_the_menu_brings_the_panel_with_the_project_s_data(panel: TrainingPanel, window: Window) -> None:
    assert not window.docks.docks["training"].visibleRegion().isEmpty()
    assert panel.focusProxy() is panel.form.editor("data")
    options = panel.options()
    assert options.data == "demo:digits" and options.learning_rate == 1e-3  # no transformer
    assert "Learning rate 0.001" in panel.hint.text()


def test_every_option_stands_in_exactly_one_place() -> None:
    form = module.GroupedForm(FinetuneOptions, GROUPS, without=("freeze",))
    names = [n for _, some in form.names for n in some]
    assert sorted(names) == sorted(set(FinetuneOptions.__dataclass_fields__) - {"freeze"})
    for fold in form.folds.values():
        fold.unfold()
    assert all(form.editor(n) is not None for n in names) and form.value() == FinetuneOptions()


def test_folds_are_made_when_opened_and_keep_what_was_put(qtbot: QtBot) -> None:
    form = module.GroupedForm(FinetuneOptions, GROUPS)
    qtbot.addWidget(form)
    form.put(FinetuneOptions(patience=3, schedule="cosine"))
    assert form.editor("patience") is None and form.value().patience == 3
    assert "patience" in form.folds["Validation and early stopping"].head.text()
    form.folds["Schedule and optimiser"].unfold()
    assert form.editor("schedule").get() == "cosine"
    form.editor("schedule").put("constant")
    form.editor("schedule").edited.emit()
    assert form.value() == FinetuneOptions(patience=3, schedule="constant")


def test_the_form_is_made_quickly() -> None:
    took = []
    for _ in range(5):
        start = time.process_time()
        module.GroupedForm(FinetuneOptions, GROUPS)
        took.append(time.process_time() - start)
    assert min(took) < budget(0.03)


def test_what_trains(panel: TrainingPanel, window: Window) -> None:
    assert panel.options().freeze == ()
    panel.trainable.choice.put(SELECTED)
    panel.trainable.choice.edited.emit()
    assert "selected" in panel.words.text()
    window.session.select(("fc2",))
    assert panel.options().freeze == (Select("name", ("fc1",)),)
    panel.trainable.put((Select("type", ("linear",)),))
    assert panel.trainable.choice.get() == EXCEPT and panel.options().freeze == (Select("type", ("linear",)),)


def test_without_data_it_says_so(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner)
    panel = window.docks.panels["training"]
    assert isinstance(panel, TrainingPanel) and "Name the data" in panel.words.text()
    panel.begin()
    assert not panel.error.isHidden() and not runner[-1].waiting


# -- the estimate


def test_words_of_an_estimate() -> None:
    assert plain(estimate_text(ESTIMATE)) == (
        "7 080 steps · about 4 min 10 s on this machine · 612.00 k of 4.40 M parameters train · "
        "12 formats, 8 masks are trained through"
    )


@pytest.mark.slow
def test_it_is_estimated_when_the_worker_is_idle(panel: TrainingPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: any(map(_is_estimate, runner[-1].waiting)), timeout=6000)
    info = next(j for j in runner[-1].waiting if _is_estimate(j))
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Done(Report("finetune_estimate", (), ESTIMATE)))
    assert "4 min 10 s" in plain(panel.words.text())
    panel.form.editor("batch_size").put(64)
    panel.form.editor("batch_size").edited.emit()
    assert "4 min 10 s" not in plain(panel.words.text())


@pytest.mark.slow
def test_an_estimate_gives_way_to_other_jobs(panel: TrainingPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: any(map(_is_estimate, runner[-1].waiting)), timeout=6000)
    panel._session.evaluate()
    qtbot.waitUntil(lambda: not any(_is_estimate(j) for j in runner[-1].waiting), timeout=2000)


@pytest.mark.slow
def test_an_estimate_that_fails_is_told_in_the_panel(
    panel: TrainingPanel, window: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: any(map(_is_estimate, runner[-1].waiting)), timeout=6000)
    info = next(j for j in runner[-1].waiting if _is_estimate(j))
    runner[-1].tell(info, Failed("The split is empty.", "Choose another."))
    assert panel.error.text() == "The split is empty. Choose another." and window.banner.isHidden()


def _is_estimate(info: JobInfo) -> bool:
    return isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "finetune_estimate"


# -- the run


def test_train_pause_keep_and_how_it_ended(panel: TrainingPanel, runner: list[FakeRunner], window: Window) -> None:
    info = begun(panel, runner)
    assert info.job.recipe.steps[-1].options == FinetuneOptions(data="demo:digits", learning_rate=1e-3)
    assert plain(panel.run.status._text) == "Training · step 40 of 250" and panel.train.isHidden()
    panel.run.pause.click()
    panel.run.refresh()
    assert panel.run.pause.text() == "Continue" and panel.run.status._text.startswith("Paused")
    panel.run.keep.click()
    assert runner[-1].kept == [info.id] and not panel.run.keep.isEnabled()
    runner[-1].tell(info, Done(ended(info)))
    assert panel.run.isHidden() and not panel.train.isHidden()
    words = plain(panel.result.text())
    assert "validation accuracy 92.5 % (+2.5 points)" in words and "step 250 of 250" in words and "Undo" in words
    window.session.undo()
    assert panel.result.isHidden()


def test_a_cancelled_training_leaves_everything(panel: TrainingPanel, runner: list[FakeRunner], window: Window) -> None:
    begun(panel, runner)
    panel.run.cancel.click()
    assert panel.run.isHidden() and not panel.train.isHidden()
    assert window.session.document is not None and window.session.document.recipe == Recipe()


def test_its_own_error_is_shown_and_not_those_of_jobs_beside_it(
    panel: TrainingPanel, runner: list[FakeRunner], window: Window
) -> None:
    info = begun(panel, runner)
    window.session.evaluate()
    beside = next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob))
    runner[-1].tell(beside, Started())
    runner[-1].tell(beside, Failed("The data is gone.", "Name other data."))
    window.session.problem.emit(EspalierError("The search was refused.", "Name a budget."))
    assert panel.error.isHidden() and panel._trainings.error is None and panel.train.isHidden()
    runner[-1].tell(info, Failed("The loss is not a number.", "Lower the rate."))
    assert panel.error.text() == "The loss is not a number. Lower the rate." and not panel.error.isHidden()
    assert panel.run.isHidden() and not panel.train.isHidden()


def test_enter_in_a_field_trains(panel: TrainingPanel, runner: list[FakeRunner], qtbot: PatientBot) -> None:
    field = panel.form.editor("batch_size")
    qtbot.focus(field)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: any(isinstance(j.job, ReplayJob) for j in runner[-1].waiting), timeout=2000)


def test_wrong_options_start_nothing(panel: TrainingPanel, runner: list[FakeRunner]) -> None:
    field = panel.form.editor("learning_rate")
    field.setText("fast")
    field.textEdited.emit("fast")
    panel.begin()
    assert not any(isinstance(j.job, ReplayJob) for j in runner[-1].waiting)
    assert "learning rate" in panel.form.wrong.text()


def test_what_was_broken_off_can_go_on_or_begin_anew(
    window: Window, runner: list[FakeRunner], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used = FinetuneOptions(data="demo:digits", epochs=7.0)
    gone: list[FinetuneOptions] = []
    held = InterruptedRun(tmp_path, 1200, 7080, 0.0)
    monkeypatch.setattr(module, "interrupted_run", lambda g, options, seed, base: held if options == used else None)
    monkeypatch.setattr(module, "discard", lambda g, options, seed, base: gone.append(options))
    training_memory.remember("demo:small", used)
    open_small(window, runner, small_project(data="demo:digits"))
    panel = window.docks.panels["training"]
    assert isinstance(panel, TrainingPanel) and panel.options() == used
    qtbot.waitUntil(lambda: not panel.interrupted.isHidden(), timeout=2000)
    assert plain(panel.interrupted.text()) == "This training was interrupted at step 1 200 of 7 080."
    assert panel.train.isHidden()
    panel.resume.click()
    info = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    assert isinstance(info.job, ReplayJob) and info.job.recipe.steps[-1].options == used and not gone
    runner[-1].tell(info, Stopped())
    panel.restart.click()
    assert gone == [used]


def test_options_are_remembered_by_model() -> None:
    assert training_memory.recall("demo:small") is None
    used = FinetuneOptions(data="demo:digits", freeze=(Select("type", ("embedding",)),))
    training_memory.remember("demo:small", used)
    assert training_memory.recall("demo:small") == used and training_memory.recall("demo:other") is None
    training_memory._file("demo:small").write_text('{"nonsense": 1}')
    assert training_memory.recall("demo:small") is None


def test_a_training_that_found_nothing_better_says_so() -> None:
    warning = UNHELPED.format(steps=250)
    told = result_text(
        Report("finetune", ROWS[:1], {**SUMMARY, "kept_step": 0, "validation_accuracy": 0.9, "warning": warning})
    )
    assert "None of the 250 steps validated better than the start" in plain(told) and "step 0" not in plain(told)


def test_a_warning_is_part_of_how_it_ended() -> None:
    told = Report("finetune", ROWS, {**SUMMARY, "ended": "diverged at step 9", "warning": "Lower the rate."})
    assert result_text(told).startswith("Diverged at step 9") and result_text(told).endswith("Lower the rate.")


def test_the_learning_rate_follows_the_graph_until_one_is_written(
    panel: TrainingPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "suggested_rate", lambda graph: (5e-4, "adapters"))
    panel._on_changed()
    assert panel.options().learning_rate == 5e-4 and "adapters" in panel.hint.text()
    field = panel.form.editor("learning_rate")
    field.put(0.02)
    field.edited.emit()
    monkeypatch.setattr(module, "suggested_rate", lambda graph: (1e-4, "all weights"))
    panel._on_changed()
    assert panel.options().learning_rate == 0.02 and "0.0001" in panel.hint.text()


def test_a_report_that_tells_nothing_says_no_more() -> None:
    """As of a training that was recovered with the model after it."""
    assert result_text(Report("finetune", (), {})) == "Finished."
