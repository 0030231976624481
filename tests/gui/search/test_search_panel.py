"""What comes of a search in the window: the best is told, applied and seen on the graph; studies are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state.trial_preview import trial_graph
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.model.formats.integer import Integer
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    PartialResult,
    Progress,
    SearchJob,
    Started,
    TrialJob,
)
from espalier.passes.search.space import Choice, Space, fit_key
from espalier.passes.search.spec import Vary
from espalier.passes.search.trial import Trial
from espalier.passes.select import Select
from tests.gui.conftest import FakeRunner, small_graph
from tests.gui.search.searching import DATA, WIDTHS, begin, feed, search_job, search_panel, trial

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    return search_panel(window, runner)


@pytest.mark.slow
def test_trials_come_and_the_best_is_told(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study and study.running and panel.head.links["pause"].isVisibleTo(panel)
    job = info.job
    assert isinstance(job, SearchJob) and job.resume and job.search.spec.study == study.name == "formats 1"
    feed(runner, info, [trial(0, 0.7), trial(1, 0.8, 5.0), trial(2, 0.75), trial(3, state="running", seconds=None)])
    qtbot.waitUntil(lambda: len(panel.trials.table.rows.shown) == 4)
    assert study.leader and study.leader.number == 2  # trial 1 is over the limit
    qtbot.waitUntil(lambda: panel.head.best.text().startswith("Best:"))
    assert panel.head.best.text().replace("\u2009", " ").startswith("Best: accuracy 75.0 %, weight bits 4")
    assert "trial 2" in panel.head.best.text() and "3 of 30 trials" in panel.head.status._text
    assert len(panel.board.study.trials) == 4
    failed = trial(3, state="failed", error="It became NaN. Train longer.", values=())
    feed(runner, info, [failed, trial(4, 0.9)])
    runner[-1].tell(info, Done(5))
    assert study.leader and study.leader.number == 4 and not study.running
    rows = panel.trials.table.rows
    assert rows.shown == [0, 1, 2, 3, 4]
    panel.trials.filter.put("failed")
    panel.trials.filter.edited.emit()
    assert rows.shown == [3]
    panel.trials.table.setCurrentIndex(rows.index(0, 0))
    assert "It became NaN" in panel.trials.words.text() and not panel.trials.use.isEnabled()
    assert panel.head.links["on"].isVisibleTo(panel) and "1 failed" in panel.head.status._text


@pytest.mark.slow
def test_the_best_is_applied_and_undone(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study, session = panel.study, panel._session
    assert study
    fitted = {fit_key("fc1", "weight", WIDTHS[2]): "integer(width=4, frac_width=3)"}
    runner[-1].tell(info, PartialResult(replace(study.space, fitted=fitted)))
    feed(runner, info, [trial(2, 0.9)])
    runner[-1].tell(info, Done(1))
    panel.head.apply.click()
    formats = {r.select.values[0]: r.formats["weight"] for r in session.recipe.steps[0].options.rules}
    assert formats["fc1"] == Integer(4, 3)  # as the worker measured it
    assert session.document and session.document.undo_label == "Apply trial 2 of formats 1"
    assert session.score.accuracy == 0.9 and not [j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob)]
    session.undo()
    assert not session.recipe.steps


@pytest.mark.slow
def test_a_trial_is_seen_on_the_graph_until_escape(panel: SearchPanel, runner: list[FakeRunner], window: Window,
                                                   qtbot: QtBot) -> None:  # fmt: skip
    info = begin(panel, runner)
    feed(runner, info, [trial(0), trial(2)])
    qtbot.waitUntil(lambda: len(panel.trials.table.rows.shown) == 2)
    qtbot.waitUntil(lambda: window.canvas.scene is not None and not window.canvas.waiting)
    canvas = window.canvas
    panel.trials.table.setCurrentIndex(panel.trials.table.rows.index(1, 0))
    shown = canvas.scene.graph if canvas.scene else None
    assert shown is not None and str(shown["fc1"].precision["weight"].format).startswith("integer(width=4")
    assert canvas.mode == "bits" and not canvas.graph["fc1"].precision  # type: ignore[index]
    QTest.keyClick(panel.trials.table, Qt.Key.Key_Escape)
    assert canvas.scene and canvas.scene.graph is canvas.graph and canvas.mode == "kind"
    assert panel.trials.picked is None


def test_what_a_trial_chose_is_put_on_the_graph() -> None:
    choices = (Choice("a", "format", WIDTHS, nodes=("fc1", "gone"), ports=("weight",)),
               Choice("s", "sparsity", (0.0, 0.5), nodes=("fc2",), method="l1"))  # fmt: skip
    space = Space(choices, {fit_key("fc1", "weight", WIDTHS[2]): "integer(width=4, frac_width=1)"})
    graph = small_graph()
    shown = trial_graph(graph, space, {"a": WIDTHS[2], "s": 0.5})
    assert shown["fc1"].precision["weight"].format == Integer(4, 1) and shown["fc2"].sparsity["weight"].ratio == 0.5
    assert trial_graph(graph, space, {}) is graph


@pytest.mark.slow
def test_the_present_configuration_competes(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    runner[-1].tell(info, Done(0))
    session, told = panel._session, []
    session.problem.connect(told.append)
    rules = tuple(Rule(Select("name", (n,)), {"weight": Integer(w, 2)}) for n, w in (("fc1", 3), ("fc2", 8)))
    session.set_recipe(Recipe((Step("quantize", QuantizeOptions(rules)),)), "By hand")
    panel.act("hand")
    job = search_job(runner).job
    assert isinstance(job, SearchJob) and job.by_hand == ({"fc1.weight": WIDTHS[1], "fc2.weight": WIDTHS[5]},)
    assert job.search.recipe == Recipe()  # trials begin as they began
    panel.act("stop")
    session.set_recipe(Recipe(), "Float")
    panel.act("hand")
    assert "outside this search: fc1.weight is float" in str(told[0])


@pytest.mark.slow
def test_a_search_is_repeated_with_other_seeds(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    begin(panel, runner)
    assert panel.study
    panel.repeat(panel.study, 2)
    assert list(panel.searches.studies) == ["formats 1", "formats 1 · seed 1", "formats 1 · seed 2"]
    assert [s.spec.seed for s in panel.searches.studies.values()] == [0, 1, 2]
    assert panel.study and panel.study.name == "formats 1"


@pytest.mark.slow
def test_a_search_that_ends_by_itself_says_why(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done("every configuration has been tried"))
    assert "ended: every configuration has been tried" in panel.head.status._text


@pytest.mark.slow
def test_studies_are_compared(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0), trial(1, 0.9)])
    runner[-1].tell(info, Done(""))
    assert not panel.head.compare.isVisibleTo(panel)
    assert panel.study
    panel.repeat(panel.study, 1)
    assert panel.head.compare.isVisibleTo(panel) and panel.head.together == ("formats 1", "formats 1 · seed 1")
    panel.head.others.actions()[0].setChecked(False)
    panel.head.others.actions()[0].setChecked(True)
    chart = panel.board.visible_tiles[-1].charts["Comparison"]
    assert [(c.name, c.group, len(c.trials)) for c in chart.others] == [
        ("formats 1", "formats 1", 2), ("formats 1 · seed 1", "formats 1", 0)]  # fmt: skip


@pytest.mark.slow
def test_a_repeated_search_is_drawn_when_it_has_ended(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    runner[-1].tell(begin(panel, runner), Done(""))
    assert panel.study
    panel.repeat(panel.study, 1)
    panel.compare(show=True)
    assert panel._clock.isActive()  # another than the shown one runs
    info = search_job(runner)
    runner[-1].tell(info, Started())
    feed(runner, info, [trial(0), trial(1)])
    runner[-1].tell(info, Done(""))
    assert [len(c.trials) for c in panel.board.visible_tiles[-1].charts["Comparison"].others] == [0, 2]


@pytest.mark.slow
def test_another_architecture_becomes_a_project(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    config = Choice("hidden_size", "config", (64, 128), key="hidden_size")
    runner[-1].tell(info, PartialResult(replace(study.space, choices=(*study.space.choices, config))))
    made = replace(trial(0), params={**trial(0).params, "hidden_size": 64})
    feed(runner, info, [made])
    runner[-1].tell(info, Done(""))
    asked: list[Trial] = []
    panel.model_wanted.disconnect()
    panel.model_wanted.connect(asked.append)
    assert panel.head.apply.text() == "The best as a project…"
    panel.act("apply")
    assert asked == [made] and not window.session.recipe.steps
    written: list[Path] = []
    panel.searches.save_model(study, made, tmp_path / "a.espalier", written.append)
    job = runner[-1].waiting[-1]
    assert isinstance(job.job, TrialJob) and job.job.params == made.params and job.job.search.info is not None
    runner[-1].tell(job, Done(tmp_path / "a.espalier"))
    assert written == [tmp_path / "a.espalier"]
    with pytest.raises(OptionsError, match="another architecture"):
        panel.searches.recipe_of(study, made)


def test_without_a_model_there_is_nothing_to_search(window: Window, runner: list[FakeRunner]) -> None:
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel) and panel.example_link.isHidden() and panel._pages.currentIndex() == 0
    panel.compose()
    assert not panel.setup.run_button.isEnabled()


@pytest.mark.slow
def test_the_menu_runs_and_applies(panel: SearchPanel, runner: list[FakeRunner], window: Window) -> None:
    actions = window.actions_table
    assert not actions.actions["search_apply"].isEnabled() and not actions.actions["search_pause"].isEnabled()
    actions.run("search_run")
    info = search_job(runner)
    runner[-1].tell(info, Started())
    assert actions.actions["search_pause"].isEnabled()
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done(1))
    assert actions.actions["search_apply"].isEnabled() and not actions.actions["search_stop"].isEnabled()
    actions.run("search_apply")
    assert window.session.recipe.steps


@pytest.mark.slow
def test_what_a_search_does_before_its_first_trial_is_told(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    runner[-1].tell(info, Progress(96, 256, "gradients of the outputs"))
    panel.results.update_texts()
    assert "gradients of the outputs · 96 of 256" in panel.head.status.toolTip()
    feed(runner, info, [trial(0)])
    panel.results.update_texts()
    assert "gradients" not in panel.head.status.toolTip()


@pytest.mark.slow
def test_the_same_search_does_not_run_twice_at_once(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    told: list[object] = []
    panel._session.problem.connect(told.append)
    panel.setup.run()  # as F8 does
    assert list(panel.searches.studies) == ["formats 1"] and "running already, as formats 1" in str(told[-1])
    panel.setup.how.editor("seed") or panel.setup.how.folds["How it begins"].unfold()
    panel.setup.how.editor("seed").put(7)
    panel.setup.run()  # another seed is another search
    panel.setup.name.put("by name")
    panel.setup.run()
    assert list(panel.searches.studies) == ["formats 1", "formats 2", "by name"] and len(told) == 1
    runner[-1].tell(info, Done(""))
    panel.setup.how.editor("seed").put(0)
    panel.setup.name.put("")
    panel.setup.run()  # one that has ended may run again
    assert "formats 3" in panel.searches.studies


@pytest.mark.slow
def test_after_pause_the_keyboard_stands_on_continue(
    panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    begin(panel, runner)
    links = panel.head.links
    qtbot.focus(links["pause"])
    QTest.keyClick(links["pause"], Qt.Key.Key_Space)
    assert panel.study and panel.study.paused and links["again"].hasFocus()
    QTest.keyClick(links["again"], Qt.Key.Key_Space)
    assert not panel.study.paused and links["pause"].hasFocus()
    qtbot.focus(links["after"])
    QTest.keyClick(links["after"], Qt.Key.Key_Space)
    assert panel.study.ending and panel.head.studies.hasFocus()  # a second Enter must not stop it


@pytest.mark.slow
def test_many_trials_at_once_are_told_in_parts(
    panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("espalier.app.features.search.state.searches.CELLS", 90)  # 30 trials of two choices in a turn
    info = begin(panel, runner)
    told: list[int] = []
    panel.searches.changed.connect(lambda study, news: told.append(len(news)))
    runner[-1].tell(info, PartialResult(tuple(trial(n, n / 100) for n in range(100))))
    study = panel.study
    assert study and not study.trials
    assert len(study.data().splitlines()) == 101 and len(study.trials) == 100  # saved meanwhile, none is missing
    qtbot.waitUntil(lambda: len(panel.board.study.trials) == 100)
    assert max(told) == 30 and sum(told) == 100 and study.leader and study.leader.number == 99
    runner[-1].tell(info, PartialResult(tuple(trial(n, 0.5) for n in range(100, 200))))
    runner[-1].tell(info, Done(200))  # at the end all are told
    assert len(panel.board.study.trials) == 200 and study.done == 200


@pytest.mark.slow
def test_old_news_of_a_trial_do_not_follow_newer_ones(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    old = replace(trial(7, 0.5), state="running")
    runner[-1].tell(info, PartialResult((trial(6, 0.4), old)))
    runner[-1].tell(info, PartialResult(trial(7, 0.5)))
    study.data()
    assert study.trials[7].state == "complete"
    runner[-1].tell(info, PartialResult((replace(trial(8, 0.5), state="running"),)))
    runner[-1].tell(info, Done(9))  # what ran is cut off, though it had not been taken in
    assert study.trials[8].state == "failed" and study.trials[8].lost and study.done == 2


@pytest.mark.slow
def test_an_edit_costs_the_form_one_count_and_no_new_cards(
    panel: SearchPanel, runner: list[FakeRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    cards, counts = panel.setup.cards, []
    whole = panel.setup._tell_whole
    monkeypatch.setattr(panel.setup, "_tell_whole", lambda good: (counts.append(good), whole(good)))
    session = panel._session
    session.record_score(Recipe(), DATA, {"accuracy": 0.8, "loss": 0.5})
    session.set_format(("fc1",), "weight", Integer(4, 2))
    assert not counts
    panel.setup.settle()
    assert counts == [True] and panel.setup.cards is cards and cards[0].form.recipe == session.recipe
    panel.setup.add(Vary("option", key="quantize.rules"))
    option = panel.setup.cards[-1]
    session.set_format(("fc2",), "weight", Integer(5, 2))
    panel.setup.settle()
    assert panel.setup.cards[-1] is not option  # it offers the options of the recipe's steps
