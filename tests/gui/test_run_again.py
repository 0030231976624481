"""Ended jobs run again with the same options on the present state, and say whether that has changed."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton

from espalier.app.features.jobs.panel import JobRow, JobsPanel
from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.sweep.panel import SweepsPanel
from espalier.app.session.repeats import difference
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.integer import Integer
from espalier.passes.base import NoOptions, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.jobs.kinds import AnalyseJob, Done, JobInfo, ReplayJob, ReplayResult, SearchJob, Started, SweepJob
from espalier.passes.recipes.replay import StepResult
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.sweep.sweep import Axis, Sweep
from espalier.passes.training.options import FinetuneOptions
from tests.gui.conftest import FakeRunner, open_small, small_graph, small_project
from tests.gui.recipes import quantise
from tests.gui.search.searching import begin, quiet, search_panel

pytestmark = pytest.mark.gui
DROPOUT = Step("remove_dropout", NoOptions())


def prune(ratio: float) -> Step:
    return Step("prune", PruneOptions(sparsity=ratio))


def quantised(width: int = 8) -> Step:
    return Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(width, 4)}),)))


@pytest.fixture
def opened(window: Window, runner: list[FakeRunner]) -> Window:
    """A window with the small model, which knows its data, and no job."""
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    quiet(runner)
    return window


def row(window: Window, job: JobInfo) -> JobRow:
    panel = window.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    return panel._rows[job.id]


def again(window: Window, job: JobInfo) -> QPushButton | None:
    found = [b for b in row(window, job).findChildren(QPushButton) if b.text() == "Run again" and not b.isHidden()]
    return found[0] if found else None


def says_changed(window: Window, job: JobInfo) -> bool:
    shown = row(window, job)._again
    return shown is not None and not shown[0].isHidden()


def end(runner: list[FakeRunner], result: object) -> JobInfo:
    return runner[-1].finish(result)


def run_again(window: Window, runner: list[FakeRunner], job: JobInfo) -> JobInfo:
    """Click; the job that begins."""
    button = again(window, job)
    assert button is not None
    button.click()
    return runner[-1].waiting[0]


def test_an_evaluation_runs_again_on_the_present_state(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.evaluate(options := EvaluateOptions(data="demo:small", limit=7))
    first = runner[-1].waiting[0]
    runner[-1].tell(first, Started())
    assert again(opened, first) is None
    runner[-1].tell(first, Done(Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0})))
    assert again(opened, first) is not None and not says_changed(opened, first)
    quantise(opened)
    assert says_changed(opened, first)
    second = run_again(opened, runner, first)
    document = opened.session.document
    assert isinstance(second.job, AnalyseJob) and document is not None and second.job.graph is document.graph
    options_ = second.job.step.options
    assert (options_.data, options_.limit) == (options.data, 7)
    assert "the state differs: Quantise added" in second.log[0]
    end(runner, Report("evaluate", (), {"accuracy": 0.4, "loss": 1.1}))
    opened.session.undo()
    assert not says_changed(opened, first) and says_changed(opened, second)


def test_what_belongs_to_a_closed_document_does_not_run_again(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.evaluate(EvaluateOptions(data="demo:small"))
    job = end(runner, Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0}))
    assert again(opened, job) is not None
    opened.session.close()
    assert again(opened, job) is None


def test_a_report_runs_again(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.run_pass("parameters", options := NoOptions())
    job = end(runner, Report("parameters", ({"node": "fc1"},), {}))
    second = run_again(opened, runner, job)
    assert isinstance(second.job, AnalyseJob) and second.job.step.options == options
    assert "the state is the same" in second.log[0]


def test_a_training_that_failed_or_was_undone_runs_again(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.run_pass("finetune", options := FinetuneOptions(data="demo:small", epochs=1.0))
    job = runner[-1].waiting[0]
    runner[-1].cancel(job.id)
    assert not says_changed(opened, job)
    second = run_again(opened, runner, job)
    assert isinstance(second.job, ReplayJob) and second.job.recipe.steps[-1].options.epochs == options.epochs
    step = StepResult(small_graph(), Report("finetune", (), {"steps": 1}), 1.0)
    end(runner, ReplayResult(small_graph(), (step,), {}))
    assert says_changed(opened, second)  # its own step is part of the state now
    opened.session.undo()
    assert not says_changed(opened, second)


@pytest.mark.slow
def test_a_search_begins_a_new_study(window: Window, runner: list[FakeRunner]) -> None:
    panel = search_panel(window, runner)
    assert isinstance(panel, SearchPanel)
    job = begin(panel, runner)
    assert isinstance(job.job, SearchJob)
    spec = job.job.search.spec
    assert panel.study is not None
    panel.searches.stop(panel.study)
    second = run_again(window, runner, job)
    assert isinstance(second.job, SearchJob)
    assert second.job.search.spec.study != spec.study and second.job.search.spec.space == spec.space
    assert len(panel.searches.studies) == 2


@pytest.mark.slow
def test_a_sweep_runs_again_on_the_present_recipe(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.set_recipe(Recipe((quantised(),)), "Quantise")
    quiet(runner)
    opened.show_dock("sweeps")
    panel = opened.docks.panels["sweeps"]
    assert isinstance(panel, SweepsPanel)
    panel.start(Sweep(Recipe((quantised(),)), Axis(0, "width", (4, 6))))
    job = next(j for j in runner[-1].waiting if isinstance(j.job, SweepJob))
    runner[-1].tell(job, Started())
    runner[-1].cancel(job.id)
    opened.session.set_recipe(Recipe((DROPOUT, quantised())), "More")
    quiet(runner)
    assert says_changed(opened, job)
    button = again(opened, job)
    assert button is not None
    button.click()
    second = next(j for j in runner[-1].waiting if isinstance(j.job, SweepJob))
    assert isinstance(second.job, SweepJob) and second.job.sweep.axis == Axis(1, "width", (4, 6))
    runner[-1].tell(second, Started())
    runner[-1].cancel(second.id)
    opened.session.set_recipe(Recipe((DROPOUT,)), "Less")
    quiet(runner)
    button = again(opened, second)
    assert button is not None
    button.click()
    assert not any(isinstance(j.job, SweepJob) for j in runner[-1].waiting)
    assert "has no step 'quantize' to vary" in opened.banner.text


@pytest.mark.parametrize(
    ("then", "now", "text"),
    [
        ((), (), ""),
        ((DROPOUT,), (DROPOUT,), ""),
        ((), (DROPOUT,), "Remove dropout added"),
        ((prune(0.1), prune(0.1)), (prune(0.1),), "Prune removed"),
        ((prune(0.1),), (prune(0.2),), "Prune added, Prune removed"),
        ((DROPOUT, prune(0.1)), (prune(0.1), DROPOUT), "the steps in another order"),
        ((), (prune(0.1), prune(0.2), DROPOUT), "2 × Prune, Remove dropout added"),
        ((Step("prune", PruneOptions(), enabled=False),), (), ""),
    ],
)
def test_how_two_states_differ(then: tuple[Step, ...], now: tuple[Step, ...], text: str) -> None:
    assert difference(Recipe(then), Recipe(now)) == text
