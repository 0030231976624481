"""A search as a job of the window: paused, stopped, gone on with, giving way, cut off; names that are taken."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.log.panel import LogPanel
from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state.texts import main_text
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Continued,
    Done,
    Failed,
    PartialResult,
    Progress,
    Started,
)
from tests.gui.conftest import FakeRunner
from tests.gui.search.searching import begin, feed, quiet, search_job, search_panel, trial

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    return search_panel(window, runner)


@pytest.mark.slow
def test_pause_stop_and_go_on(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    feed(runner, info, [trial(0), trial(1, state="running", seconds=None)])
    panel.head.links["pause"].click()
    assert study.paused and panel.head.links["again"].isVisibleTo(panel)
    qtbot.waitUntil(lambda: "paused" in panel.head.status._text)
    panel.head.links["again"].click()
    assert not study.paused and study.running
    panel.head.links["after"].click()
    assert runner[-1].kept == [info.id] and "ends after this trial" in panel.head.status._text
    panel.head.links["stop"].click()
    assert not study.running and study.trials[1].state == "failed" and study.done == 1
    assert "failed" not in panel.head.status._text  # it was cut off by the user, and is tried again
    panel.head.links["on"].click()
    again = search_job(runner)
    assert again is not info and study.went_on == 1
    runner[-1].tell(again, Started())
    runner[-1].tell(again, PartialResult((replace(trial(1), origin="retry"), trial(0))))  # what the storage holds
    qtbot.waitUntil(lambda: panel.trials.table.rows.trials[1].state == "complete")
    assert "went on from trial 1" in panel.head.status._text


@pytest.mark.slow
def test_a_dead_worker_is_told_and_nothing_is_lost(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0, 0.9), trial(1, state="running", seconds=None)])
    runner[-1].tell(info, Failed("The worker process ended unexpectedly.", "Go on with it."))
    study = panel.study
    assert study and "ended unexpectedly" in panel.head.wrong.text() and "are kept" in panel.head.wrong.text()
    assert study.leader and study.leader.number == 0 and study.trials[1].error == "It was interrupted."


@pytest.mark.slow
def test_an_end_before_the_first_trial_keeps_none(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    runner[-1].tell(begin(panel, runner), Failed("No configuration holds weight_bits<=1.", "Raise it."))
    assert panel.head.wrong.text() == "No configuration holds weight_bits<=1. Raise it."


@pytest.mark.slow
def test_other_jobs_go_between_two_trials(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    panel._session.evaluate()
    waiting = next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob))
    feed(runner, info, [trial(0)])
    assert runner[-1].kept == [info.id]
    told: list[bool] = []
    panel.searches.changed.connect(lambda study, _: told.append(study.running))
    runner[-1].tell(info, Done("as asked"))
    assert all(told), "shown as stopped for a moment: all panels are laid out twice"
    again = search_job(runner)
    assert again is info and panel.study and panel.study.running and info.state == "waiting"
    assert runner[-1].waiting.index(waiting) < runner[-1].waiting.index(again)


@pytest.mark.slow
def test_an_edit_does_not_wait_for_all_gradients(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    """Before its first trial a search gathers some: it makes room as soon as another job comes."""
    info = begin(panel, runner)
    panel._session.evaluate()
    assert runner[-1].kept == [info.id]
    panel._session.evaluate()
    assert runner[-1].kept == [info.id], "asked once"
    runner[-1].tell(info, Done("as asked"))
    assert search_job(runner) is info and info.state == "waiting" and panel.study and panel.study.running


@pytest.mark.slow
def test_a_search_that_makes_room_stays_one_job(panel: SearchPanel, runner: list[FakeRunner], window: Window) -> None:
    info = begin(panel, runner)
    info.started -= 200.0
    for event in (Progress(0, 30, "trial 1"), Progress(1, 30, "trial 2")):
        info.note(event, info.started + 90.0 * (event.done + 1))
    window.show_dock("jobs")
    jobs, log = window.docks.panels["jobs"], window.docks.panels["log"]
    assert isinstance(jobs, JobsPanel) and isinstance(log, LogPanel)
    panel._session.evaluate()
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done("as asked"))
    row = jobs._rows[info.id]
    row.refresh(time.monotonic())
    shown = row._status.text()
    assert (
        shown.startswith("waiting · trial 2 · 1 of 30 · 3\u2009min ")
        and shown.endswith("min left")
        and not row._stop.isHidden()
    )
    assert "done" not in log.text.splitlines()[-1] and "waiting for another job" in log.text
    other = next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob))
    runner[-1].tell(other, Started())
    runner[-1].tell(other, Done(Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0})))
    spent, begun = info.worked(info.started + 1000.0), time.monotonic()
    runner[-1].tell(info, Started())
    assert "continued" in log.text.splitlines()[-1]
    worked = info.worked(time.monotonic()) - spent
    assert -1e-6 < worked < time.monotonic() - begun + 1e-6, "the wait is not counted"
    assert sum(r.job.title == info.title for r in jobs._rows.values()) == 1
    panel._session.evaluate()
    feed(runner, info, [trial(1)])
    runner[-1].tell(info, Done("as asked"))
    row._stop.click()
    assert info.state == "stopped" and panel.study and not panel.study.running and panel.study.done == 2


@pytest.mark.slow
def test_a_search_of_which_nothing_is_left_is_done(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    panel._session.evaluate()
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done("all 18 configurations were tried"))
    assert info.state == "done" and panel.study and not panel.study.running and "all 18" in panel.study.end_reason


@pytest.mark.slow
def test_a_paused_search_lets_other_jobs_go(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    panel.head.links["pause"].click()
    assert study.paused and not runner[-1].kept  # nobody waits for it
    panel._session.evaluate()
    assert runner[-1].kept == [info.id]
    runner[-1].tell(info, Continued())  # the trial that it is at is measured
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done("as asked"))
    assert study.job is info and study.paused and panel.head.links["again"].isVisibleTo(panel)
    assert "paused" in panel.head.status._text and not panel.head.links["on"].isVisibleTo(panel)
    quiet(runner)
    assert study.paused and not runner[-1].waiting
    panel.head.links["again"].click()
    assert search_job(runner) is info and study.job is info and not study.paused
    panel.head.links["pause"].click()  # before it goes on
    assert study.paused and not runner[-1].waiting
    panel.head.links["stop"].click()
    assert not study.running and panel.head.links["on"].isVisibleTo(panel)


@pytest.mark.slow
def test_a_study_without_a_trial_blocks_no_name(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    panel.setup.name.put("mine")
    runner[-1].tell(begin(panel, runner), Failed("The data have no rows.", "Give others."))
    panel.setup.goals.add_goal()
    panel.setup.run()
    (study,) = panel.searches.studies.values()
    assert study.name == "mine" and len(study.spec.goals) == 2 and study.running


@pytest.mark.slow
def test_a_baseline_of_other_data_is_none(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    """An accuracy on the training split says nothing of how far trials are from it on the test split."""
    session = panel._session
    measured = {"accuracy": 0.9, "loss": 0.3, "n": 50}
    session.record_score(Recipe(), replace(session.measured_on, split="train"), measured, chosen=True)
    own = panel.setup.spec()
    held = panel.searches.start(replace(own, study="own", score=session.measured_on))
    other = panel.searches.start(replace(own, study="other", score=replace(session.measured_on, split="test")))
    assert held.baseline["accuracy"] == 0.9 and "accuracy" not in other.baseline
    assert "weight_bits" in other.baseline and "points" not in main_text(
        replace(trial(0), noise={"n": 50}), other.baseline, other.against
    )


@pytest.mark.slow
def test_only_a_whole_score_becomes_the_projects(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    """One that ended early was measured on a part of the samples; a whole one brings these along."""
    info, session = begin(panel, runner), panel._session
    early = trial(1, 0.9, state="pruned", steps=((64, 0.9),))
    whole = trial(2, 0.7, noise={"n": 270, "guessing": 0.1, "hits": ""})
    feed(runner, info, [trial(0), early, whole])
    study = panel.study
    assert study is not None
    session.measures.use(study.spec.score)
    panel.searches.use(study, early)
    assert session.measures.main(panel.searches.recipe_of(study, early)) is None
    assert not session.measures.has(panel.searches.recipe_of(study, early))
    panel.searches.use(study, whole)
    found = session.measures.main(panel.searches.recipe_of(study, whole))
    assert found is not None and (found.value, found.n) == (0.7, 270)


@pytest.mark.slow
def test_names_that_are_taken(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    told: list[object] = []
    panel._session.problem.connect(told.append)
    panel.setup.name.put("mine")
    info = begin(panel, runner)
    panel.setup.run()
    assert "is running already" in str(told[0])
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done(0))
    panel.setup.goals.add_goal()
    panel.setup.run()
    assert "another space or other goals" in str(told[1]) and len(panel.searches.studies) == 1
    panel.setup.name.put("")
    panel.setup.run()
    assert list(panel.searches.studies) == ["mine", "formats 1"]
