"""A long edit that ends, or a trial that is applied, says which steps the user undid or made in the meantime."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QMessageBox

from espalier.app.features.search.panel import SearchPanel
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe, Step
from espalier.passes.base import NoOptions
from espalier.passes.jobs.kinds import Done, JobInfo, Metric, ReplayResult, Started
from espalier.passes.training.options import FinetuneOptions
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.recipes import quantise
from tests.gui.search.searching import begin, feed, quiet, search_panel, trial

pytestmark = pytest.mark.gui
TRAINING = Step("finetune", FinetuneOptions(data="demo:digits"))
DROPOUT = Step("remove_dropout", NoOptions())


@pytest.fixture
def opened(window: Window, runner: list[FakeRunner]) -> Window:
    """A window with the small model and no job."""
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    quiet(runner)
    return window


def train(window: Window, runner: list[FakeRunner]) -> JobInfo:
    """Begin a training after the present recipe."""
    window.session.set_recipe(window.session.recipe.append(TRAINING), "Fine-tune")
    (training,) = [j for j in runner[0].waiting if j.title == "Fine-tune"]
    runner[0].tell(training, Started())
    return training


def end(window: Window, runner: list[FakeRunner], training: JobInfo) -> None:
    count = len(training.job.recipe.active)  # type: ignore[union-attr]
    runner[0].tell(training, Done(ReplayResult(window.session.open_document.graph, (None,) * count, {})))


@pytest.mark.slow
def test_a_training_that_brings_a_step_back_says_so(opened: Window, runner: list[FakeRunner]) -> None:
    session = opened.session
    quantise(opened)
    training = train(opened, runner)
    session.undo()
    assert session.open_document.recipe == Recipe()
    end(opened, runner, training)
    assert [s.pass_name for s in session.recipe.steps] == ["quantize", "finetune"]
    assert "Fine-tune began before the recipe was changed" in opened.banner.text
    assert "Quantise is in the recipe again" in opened.banner.text
    session.undo()
    assert session.recipe == Recipe()


@pytest.mark.slow
def test_a_training_that_takes_a_step_away_says_so(opened: Window, runner: list[FakeRunner]) -> None:
    session = opened.session
    quantise(opened)
    session.undo()
    training = train(opened, runner)
    session.redo()
    end(opened, runner, training)
    assert session.recipe.steps == (TRAINING,)
    assert "Quantise is not in the recipe any more" in opened.banner.text


@pytest.mark.slow
def test_a_training_of_the_present_recipe_says_nothing(opened: Window, runner: list[FakeRunner]) -> None:
    quantise(opened)
    end(opened, runner, train(opened, runner))
    assert opened.banner.text == ""


@pytest.mark.slow
def test_a_trial_that_replaces_later_steps_says_so(opened: Window, runner: list[FakeRunner]) -> None:
    session, panel = opened.session, search_panel(opened, runner)
    assert isinstance(panel, SearchPanel)
    info = begin(panel, runner)
    feed(runner, info, [trial(0), trial(1)])
    session.set_recipe(session.recipe.append(DROPOUT), "Remove dropout")
    quiet(runner)
    study = panel.study
    assert study is not None
    panel.searches.use(study, study.trials[0])
    assert "Steps made since are not in the recipe any more: Remove dropout." in opened.banner.text
    opened.banner.dismiss()
    panel.searches.use(study, study.trials[1])  # only the other trial's steps are replaced
    assert opened.banner.text == ""
    session.undo()
    session.undo()
    assert DROPOUT in session.recipe.steps


@pytest.mark.slow
def test_leaving_during_a_training_names_what_keeps_it(opened: Window, runner: list[FakeRunner]) -> None:
    training = train(opened, runner)
    runner[0].tell(training, Metric("training loss", 1, 0.5))
    opened.services.saving.guard(lambda: None)
    (box,) = opened.findChildren(QMessageBox)
    assert "Edits that are not finished are lost: Fine-tune." in box.informativeText()
    assert "“Stop and keep” in the Jobs panel" in box.informativeText()
    box.close()
