"""Searches in the window: composed, seen trial by trial, paused, gone on with, applied, kept with the project."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.format_families import Family, read, write
from app.panels.search import SearchPanel
from app.search_words import size_words
from app.study_record import Record, dump, load, member_of, records
from app.study_templates import beginning, to_toml
from app.study_templates import load as load_template
from app.trial_preview import trial_graph
from app.trial_rows import TrialRows
from app.window import Window
from model.errors import OptionsError
from model.formats.integer import Integer
from model.recipe import Recipe, Step
from passes.analysis.evaluate import EvaluateOptions
from passes.jobs import (
    AnalyseJob,
    Continued,
    Done,
    Failed,
    Found,
    JobInfo,
    SaveJob,
    SearchJob,
    Started,
    Stopped,
    TrialJob,
)
from passes.search import kept
from passes.search.space import Choice, Space, fit_key
from passes.search.spec import Goal, SearchSpec, Vary, When
from passes.search.trial import Trial
from passes.select import Select
from passes.transform.prune import PruneOptions
from passes.transform.quantize import QuantizeOptions, Rule
from tests.gui.conftest import FakeRunner, open_small, small_graph, small_project

pytestmark = pytest.mark.gui
DATA = EvaluateOptions(data="demo:small")
WIDTHS = tuple(f"integer(width={w})" for w in (2, 3, 4, 5, 6, 8))


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    quiet(runner)
    window.show_dock("search")
    made = window.docks.panels["search"]
    assert isinstance(made, SearchPanel)
    return made


def quiet(runner: list[FakeRunner]) -> None:
    """End the jobs that other panels began by themselves."""
    while runner[-1].waiting:
        runner[-1].tell(runner[-1].waiting[0], Stopped())


def search_job(runner: list[FakeRunner]) -> JobInfo:
    """The search that waits or runs."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, SearchJob))


def begin(panel: SearchPanel, runner: list[FakeRunner]) -> JobInfo:
    """Run the search that the form begins with; the worker has begun."""
    panel.setup.run()
    info = search_job(runner)
    runner[-1].tell(info, Started())
    return info


def trial(number: int, accuracy: float = 0.8, bits: float = 4.0, *, state: str = "complete", **more: object) -> Trial:
    """A trial that chose widths by its number."""
    params = {"fc1.weight": WIDTHS[number % 6], "fc2.weight": WIDTHS[(number + 1) % 6]}
    figures = {"accuracy": accuracy, "loss": 0.5, "weight_bits": bits, "size_bytes": 1000.0 * bits}
    done = state == "complete"
    return replace(
        Trial(number, state, params, (accuracy,) if done else (), figures if state != "failed" else {},  # type: ignore[arg-type]
              violation={"weight_bits<=4.5": bits - 4.5}, started=1e9 + number, seconds=2.0, origin="tpe"), **more
    )  # fmt: skip


def feed(runner: list[FakeRunner], info: JobInfo, trials: Sequence[Trial]) -> None:
    for each in trials:
        runner[-1].tell(info, Found(each))


# -- what is asked for


def test_formats_as_chips_and_back() -> None:
    text = "integer(width=4|8, frac_width=2|4), mxint(width=4), float, all"
    families = read(text)
    assert write(families) == text
    assert families[0].get("width") == ("4", "8") and families[0].rest == "frac_width=2|4"
    assert Family("integer", (("width", ("4",)),)).put("width", ("8",)) == read("integer(width=8)")[0]
    with pytest.raises(OptionsError, match="not a format"):
        read("intger(width=4)")
    with pytest.raises(OptionsError, match="has no 'widht'"):
        read("integer(widht=4)")


def test_a_space_in_words() -> None:
    def of(*sizes: int) -> Space:
        return Space(tuple(Choice(f"c{i}", "format", tuple(range(n))) for i, n in enumerate(sizes)))

    assert size_words(of(*[6] * 14)) == "6¹⁴ ≈ 7.8·10¹⁰ configurations"
    assert size_words(of(6, 6, 3)) == "3 · 6² = 108 configurations"
    assert size_words(of(5)) == "5 configurations" and size_words(Space()) == "nothing varies yet"
    between = Choice("x", "option", low=0.0, high=1.0)
    assert size_words(Space((*of(5).choices, between))) == "5 configurations and 1 number of a range"


def test_the_form_begins_with_mixed_precision_and_counts_it(panel: SearchPanel) -> None:
    assert panel._pages.currentIndex() == 0 and not panel.example_link.isHidden()
    panel.compose_link.click()
    assert panel._pages.currentIndex() == 1
    card = panel.setup.cards[0]
    assert card.note.text() == "2 layers · 6 formats" and panel.setup.counted.text() == "6² = 36 configurations"
    spec = panel.setup.spec()
    assert spec.goals == (Goal("accuracy"),) and spec.within == ("weight_bits<=4.5",) and spec.score == DATA
    assert spec.space == (Vary("format", Select("type", ("linear",)), values="integer(width=2|3|4|5|6|8)"),)
    formats = card.body.formats  # type: ignore[attr-defined]
    formats.rows[0].chips.buttons["12"].click()
    panel.setup.tell()
    assert panel.setup.counted.text() == "7² = 49 configurations"
    card.per.put("all")
    panel.setup.tell()
    assert panel.setup.counted.text() == "7 configurations" and card.note.text() == "2 layers · 1 choice · 7 formats"


def test_what_is_wrong_stands_beside_it(panel: SearchPanel) -> None:
    setup, card = panel.setup, panel.setup.cards[0]
    panel.compose()
    card.body.select.values.put(("no_such",))  # type: ignore[attr-defined]
    setup.tell()
    assert (
        card.wrong.text().startswith("The selection (type no_such)")
        and not card.wrong.isHidden()
        and not setup.run_button.isEnabled()
    )
    card.body.select.values.put(("linear",))  # type: ignore[attr-defined]
    setup.goals.limits[0].number.put("")
    setup.tell()
    assert card.wrong.isHidden() and "no limit" in setup.goals.wrong.text() and not setup.run_button.isEnabled()
    setup.goals.limits[0].number.put("x")
    setup.tell()
    assert "not a constraint" in setup.goals.wrong.text() and not setup.run_button.isEnabled()
    setup.goals.limits[0].removed.emit()
    setup.tell()
    assert setup.run_button.isEnabled() and setup.wrong.isHidden()
    card.removed.emit()
    setup.tell()
    assert "Nothing varies" in setup.wrong.text() and not setup.run_button.isEnabled()
    setup.run()
    assert not panel.searches.studies


def test_entries_of_all_kinds_keep_what_they_are_given(panel: SearchPanel) -> None:
    session = panel._session
    session.set_recipe(Recipe((Step("prune", PruneOptions()),)), "Prune")
    quiet_spec = SearchSpec(
        space=(
            Vary("format", Select("name", ("fc1",)), ("data_in", "weight"), "integer(width=4|8), float", per="type",
                 name="how"),
            Vary("sparsity", Select("type", ("linear",)), low=0.1, high=0.9, log=True, method="random"),
            Vary("option", key="prune.sparsity", values="0.25, 0.5", when=When("how", ("float",))),
            Vary("config", key="hidden_size", values="64, 128", per="all"),
            Vary("identity", Select("name", ("fc1",)), per="module", depth=2, fit=False),
        ),
        goals=(Goal("loss", "low", 2.0), Goal("weight_bits")), within=("size_bytes<=1.5MiB", "accuracy>=90%"),
        summed=True, sampler="random", pruner="median", trials=7, patience=3, seed=5, warm=2, score=DATA,
    )  # fmt: skip
    panel.setup.put(quiet_spec)
    got = panel.setup.spec()
    assert got.space[0] == quiet_spec.space[0] and got.space[1] == quiet_spec.space[1]
    assert got.space[2].key == "prune.sparsity" and got.space[2].when == quiet_spec.space[2].when
    assert got.space[3:] == (quiet_spec.space[3], replace(quiet_spec.space[4], fit=False))
    assert (got.goals, got.within, got.summed) == (quiet_spec.goals, quiet_spec.within, True)
    assert (got.sampler, got.pruner, got.trials, got.patience, got.seed, got.warm) == ("random", "median", 7, 3, 5, 2)


def test_a_search_goes_to_a_file_and_back(tmp_path: Path) -> None:
    spec = replace(beginning(small_graph(), DATA), trials=9, study="mine")
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(spec, Recipe((Step("prune", PruneOptions(0.3)),))), encoding="utf-8")
    recipe, again = load_template(path, DATA)
    assert again == spec and recipe.steps[0].options.sparsity == 0.3


def test_a_template_fills_the_form_with_a_recipe_of_its_own(panel: SearchPanel, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'trials = 4\ngoals = "loss"\n[[space]]\nkind = "option"\nkey = "prune.sparsity"\nvalues = [0.2, 0.4]\n'
        '[[steps]]\npass = "prune"\n', encoding="utf-8")  # fmt: skip
    panel.setup.open_file(path)
    assert "own recipe: prune" in panel.setup._own.text() and panel.setup.counted.text() == "2 configurations"
    assert panel.setup.spec().trials == 4 and panel.setup.spec().study == "own"
    told: list[object] = []
    panel._session.problem.connect(told.append)
    path.write_text("triels = 4\n", encoding="utf-8")
    panel.setup.open_file(path)
    assert "triels" in str(told[0]) and panel.setup.spec().trials == 4  # the form stays as it was


# -- what comes of it


def test_trials_come_and_the_best_is_told(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study and study.running and panel.head.links["pause"].isVisibleTo(panel)
    job = info.job
    assert isinstance(job, SearchJob) and job.resume and job.search.spec.study == study.name == "formats 1"
    feed(runner, info, [trial(0, 0.7), trial(1, 0.8, 5.0), trial(2, 0.75), trial(3, state="running", seconds=None)])
    qtbot.waitUntil(lambda: len(panel.trials.table.rows.shown) == 4)
    assert study.leader and study.leader.number == 2  # trial 1 is over the limit
    assert panel.head.best.text().replace("\u2009", " ").startswith("Best: accuracy 75.0 %, weight bits 4")
    assert "trial 2" in panel.head.best.text() and "3 of 30 trials" in panel.head.status._whole
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
    assert panel.head.links["on"].isVisibleTo(panel) and "1 failed" in panel.head.status._whole


def test_the_best_is_applied_and_undone(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study, session = panel.study, panel._session
    assert study
    fitted = {fit_key("fc1", "weight", WIDTHS[2]): "integer(width=4, frac_width=3)"}
    runner[-1].tell(info, Found(replace(study.space, fitted=fitted)))
    feed(runner, info, [trial(2, 0.9)])
    runner[-1].tell(info, Done(1))
    panel.head.apply.click()
    formats = {r.select.values[0]: r.formats["weight"] for r in session.recipe.steps[0].options.rules}
    assert formats["fc1"] == Integer(4, 3)  # as the worker measured it
    assert session.document and session.document.undo_label == "Apply trial 2 of formats 1"
    assert session.score.accuracy == 0.9 and not [j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob)]
    session.undo()
    assert not session.recipe.steps


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


def test_pause_stop_and_go_on(panel: SearchPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    feed(runner, info, [trial(0), trial(1, state="running", seconds=None)])
    panel.head.links["pause"].click()
    assert study.paused and panel.head.links["again"].isVisibleTo(panel)
    qtbot.waitUntil(lambda: "paused" in panel.head.status._whole)
    panel.head.links["again"].click()
    assert not study.paused and study.running
    panel.head.links["after"].click()
    assert runner[-1].kept == [info.id] and "ends after this trial" in panel.head.status._whole
    panel.head.links["stop"].click()
    assert not study.running and study.trials[1].state == "failed" and study.done == 1
    assert "failed" not in panel.head.status._whole  # it was cut off by the user, and is tried again
    panel.head.links["on"].click()
    again = search_job(runner)
    assert again is not info and study.went_on == 1
    runner[-1].tell(again, Started())
    runner[-1].tell(again, Found((replace(trial(1), origin="retry"), trial(0))))  # what the storage holds
    qtbot.waitUntil(lambda: panel.trials.table.rows.trials[1].state == "complete")
    assert "went on from trial 1" in panel.head.status._whole


def test_a_dead_worker_is_told_and_nothing_is_lost(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0, 0.9), trial(1, state="running", seconds=None)])
    runner[-1].tell(info, Failed("The worker process ended unexpectedly.", "Go on with it."))
    study = panel.study
    assert study and "ended unexpectedly" in panel.head.wrong.text() and "are kept" in panel.head.wrong.text()
    assert study.leader and study.leader.number == 0 and study.trials[1].error == "It was cut off."


def test_an_end_before_the_first_trial_keeps_none(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    runner[-1].tell(begin(panel, runner), Failed("No configuration holds weight_bits<=1.", "Raise it."))
    assert panel.head.wrong.text() == "No configuration holds weight_bits<=1. Raise it."


def test_other_jobs_go_between_two_trials(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    panel._session.evaluate()
    waiting = next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob))
    feed(runner, info, [trial(0)])
    assert runner[-1].kept == [info.id]
    runner[-1].tell(info, Done(1))
    again = search_job(runner)
    assert again is not info and panel.study and panel.study.running
    assert runner[-1].waiting.index(waiting) < runner[-1].waiting.index(again)


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
    assert study.job is None and study.paused and panel.head.links["again"].isVisibleTo(panel)
    assert "paused" in panel.head.status._whole and not panel.head.links["on"].isVisibleTo(panel)
    quiet(runner)
    assert study.paused and not runner[-1].waiting
    panel.head.links["again"].click()
    again = search_job(runner)
    assert again is not info and study.job is again and not study.paused
    panel.head.links["pause"].click()  # before it has begun
    assert study.paused and not runner[-1].waiting
    panel.head.links["stop"].click()
    assert not study.running and panel.head.links["on"].isVisibleTo(panel)


def test_names_that_are_taken(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    told: list[object] = []
    panel._session.problem.connect(told.append)
    panel.setup.name.put("mine")
    info = begin(panel, runner)
    panel.setup.run()
    assert "runs already" in str(told[0])
    runner[-1].tell(info, Done(0))
    panel.setup.goals.add_goal()
    panel.setup.run()
    assert "varies something else" in str(told[1]) and len(panel.searches.studies) == 1
    panel.setup.name.put("")
    panel.setup.run()
    assert list(panel.searches.studies) == ["mine", "formats 1"]


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
    assert "none of this search: fc1.weight is float" in str(told[0])


def test_a_search_is_repeated_with_other_seeds(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    begin(panel, runner)
    assert panel.study
    panel.repeat(panel.study, 2)
    assert list(panel.searches.studies) == ["formats 1", "formats 1 · seed 1", "formats 1 · seed 2"]
    assert [s.spec.seed for s in panel.searches.studies.values()] == [0, 1, 2]
    assert panel.study and panel.study.name == "formats 1"


# -- kept


def test_a_record_survives_its_text() -> None:
    spec = SearchSpec(study="a/b", space=(Vary(values="integer"),))
    held = Record(spec, Recipe(), Space((Choice("c", "format", ("float",)),)), (trial(0), trial(1)), "k", {"loss": 1.0})
    data = dump(held)
    assert load(data) == held and load(data[:-40]).trials == held.trials[:1]  # a line that was cut off
    assert records({member_of("a/b"): data, "studies/bad.trials.jsonl": b"{", "other": b""}) == {"a/b": held}
    with pytest.raises(OptionsError, match="cannot be read"):
        load(b"{}\n")


def test_studies_are_kept_with_the_project(panel: SearchPanel, runner: list[FakeRunner], window: Window) -> None:
    info = begin(panel, runner)
    document = window.session.document
    assert document
    kept.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n{"op_co')
    feed(runner, info, [trial(0, 0.9), trial(1)])
    runner[-1].tell(info, Done(2))
    assert document.dirty and window.isWindowModified()
    extras = document.project.extras
    assert extras["studies/formats 1.journal"] == b'{"op_code":0}\n'  # whole lines alone
    assert load(extras[member_of("formats 1")]).trials == (trial(0, 0.9), trial(1))
    quiet(runner)
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    quiet(runner)
    assert panel.study and panel.study.leader and panel.study.leader.number == 0
    assert panel.trials.table.rows.shown == [0, 1] and window.session.document and not window.session.document.dirty
    path = kept.path_for(window.session.document.store.folder, "formats 1")
    assert path.read_bytes() == b'{"op_code":0}\n'
    panel.act("remove")
    assert not panel.searches.studies and not path.exists() and not window.session.document.project.extras


def test_what_a_dead_window_had_found_is_found_again(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0)])
    panel.searches.write()
    document = window.session.document
    assert document
    extras = dict(document.project.extras)  # as it was when the project was last saved
    feed(runner, info, [trial(1, 0.95), trial(2)])
    kept.path_for(document.store.folder, "formats 1").write_bytes(b'{"op_code":0}\n{"op_code":4}\n')
    quiet(runner)
    monkeypatch.setattr("app.study_files._alive", lambda pid: False)
    open_small(window, runner, replace(small_project("demo:small"), extras=extras))
    assert panel.study and sorted(panel.study.trials) == [0, 1, 2] and panel.study.leader.number == 1  # type: ignore[union-attr]
    now = window.session.document
    assert now and kept.path_for(now.store.folder, "formats 1").read_bytes().count(b"\n") == 2
    panel.searches.write()
    assert now.dirty


def test_saving_amid_a_search_keeps_every_trial(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    feed(runner, begin(panel, runner), [trial(0), trial(1)])
    window.session.save_as(tmp_path / "a.espalier", copy=True)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, SaveJob)
    assert len(load(job.project.extras[member_of("formats 1")]).trials) == 2


def test_trials_are_copied_and_saved(panel: SearchPanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0), trial(1, state="failed", values=(), error="No, really.")])
    runner[-1].tell(info, Done(2))
    panel.export(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as handle:
        table = list(csv.DictReader(handle))
    assert table[0]["accuracy"] == "0.8" and table[0]["fc1.weight"] == WIDTHS[0] and table[1]["error"] == "No, really."
    panel.trials.table.copy()
    assert QGuiApplication.clipboard().text().splitlines()[1].startswith("0\tcomplete\t0.8")


def test_ten_thousand_trials_are_fluent() -> None:
    rows = TrialRows()
    rows.begin((Goal("accuracy"),), [trial(i, i / 10_000) for i in range(10_000)])
    rows.sort(2, Qt.SortOrder.DescendingOrder)
    assert rows.shown[0] == 9999
    least = min(_taken(rows, i) for i in range(5))
    assert least < 0.1 and rows.rowCount() == 10_005  # of processor time, where 20 a second have 50 ms each
    rows.sort(-1)
    assert rows.shown[-1] == 10_004


def _taken(rows: TrialRows, i: int) -> float:
    begun = time.process_time()
    rows.take([trial(10_000 + i, 0.5)], frozenset())
    return time.process_time() - begun


def test_a_search_that_ends_by_itself_says_why(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    info = begin(panel, runner)
    feed(runner, info, [trial(0)])
    runner[-1].tell(info, Done("every configuration has been tried"))
    assert "ended: every configuration has been tried" in panel.head.status._whole


def test_another_architecture_becomes_a_project(
    panel: SearchPanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    info = begin(panel, runner)
    study = panel.study
    assert study
    config = Choice("hidden_size", "config", (64, 128), key="hidden_size")
    runner[-1].tell(info, Found(replace(study.space, choices=(*study.space.choices, config))))
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
    chart = panel.board.seen[-1].charts["Comparison"]
    assert [(c.name, c.group, len(c.trials)) for c in chart.others] == [
        ("formats 1", "formats 1", 2), ("formats 1 · seed 1", "formats 1", 0)]  # fmt: skip


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
    assert [len(c.trials) for c in panel.board.seen[-1].charts["Comparison"].others] == [0, 2]


def test_without_a_model_there_is_nothing_to_search(window: Window, runner: list[FakeRunner]) -> None:
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel) and panel.example_link.isHidden() and panel._pages.currentIndex() == 0
    panel.compose()
    assert not panel.setup.run_button.isEnabled()


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
