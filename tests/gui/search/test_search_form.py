"""The composer of a search: what varies, what is wanted, what is wrong, files and templates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.features.search.goals import GoalRow
from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.search.state.format_families import Family, read, write
from espalier.app.features.search.state.templates import beginning, to_toml
from espalier.app.features.search.state.templates import load as load_template
from espalier.app.features.search.state.texts import size_words
from espalier.app.shell.window import Window
from espalier.app.theme import DARK, LIGHT
from espalier.app.widgets.forms.fields import apply_field_style
from espalier.app.widgets.style import Appearance
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import Goal, SearchSpec, Vary, When
from espalier.passes.select import Select
from tests.gui.conftest import FakeRunner, open_small, small_graph
from tests.gui.search.searching import DATA, quiet, search_job, search_panel

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    return search_panel(window, runner)


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


@pytest.mark.slow
def test_without_data_the_example_asks_for_some(window: Window, runner: list[FakeRunner]) -> None:
    """It would run for the least bits alone, whatever they do to the model."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    window.show_dock("search")
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel) and panel.example_link.text().startswith("Choose data for it")
    panel.example_link.click()
    panel.setup.settle()
    setup = panel.setup
    assert not runner[-1].waiting and not setup.run_button.isEnabled() and "no data are named" in setup.wrong.text()
    assert setup.score.form is not None
    setup.score.form.editors["data"].put("demo:small")
    setup.update_notes()
    setup.run()
    spec = search_job(runner).job.search.spec  # type: ignore[union-attr]
    assert spec.goals == (Goal("accuracy"),) and spec.within and spec.warm and spec.score.data == "demo:small"


@pytest.mark.slow
def test_data_that_are_measured_on_later_are_what_trials_are_scored_on(
    window: Window, runner: list[FakeRunner]
) -> None:
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    window.show_dock("search")
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel)
    panel.run_example()
    window.session.record_score(Recipe(), DATA, {"accuracy": 0.5, "loss": 1.0, "samples": 4})
    assert panel.example_link.text().startswith("Run it") and panel.setup.spec().score == DATA


@pytest.mark.slow
def test_the_form_begins_with_mixed_precision_and_counts_it(panel: SearchPanel) -> None:
    assert panel._pages.currentIndex() == 0 and not panel.example_link.isHidden()
    panel.compose_link.click()
    assert panel._pages.currentIndex() == 1
    card = panel.setup.cards[0]
    assert card.note.text() == "2 layers · 6 formats" and panel.setup.counted.text() == "6² = 36 configurations"
    spec = panel.setup.spec()
    assert spec.goals == (Goal("accuracy"),) and spec.within == ("weight_bits<=4.5",) and spec.score == DATA
    assert spec.space == (Vary("format", Select("type", ("linear",)), values="integer(width=2|3|4|5|6|8)"),)
    formats = card.form.fields["values"]  # type: ignore[attr-defined]
    formats.rows[0].chips.buttons["12"].click()
    panel.setup.update_notes()
    assert panel.setup.counted.text() == "7² = 49 configurations"
    card.per.put("all")
    panel.setup.update_notes()
    assert panel.setup.counted.text() == "7 configurations" and card.note.text() == "2 layers · 1 choice · 7 formats"


def test_the_direction_of_a_goal_is_that_of_its_metric(qapp: QApplication) -> None:
    """Weight bits are to be low, whatever other metrics are."""
    row = GoalRow(Goal("weight_bits"), ("accuracy", "weight_bits"))
    assert row.better.currentText() == "low (default)" and row.get().better == ""
    row.figure.put("accuracy")
    row.figure.edited.emit()
    assert row.better.currentText() == "high (default)" and row.get() == Goal("accuracy")
    row.better.put("low")
    row.figure.edited.emit()
    assert row.better.currentText() == "low" and row.get().better == "low"


@pytest.mark.slow
def test_what_is_wrong_stands_beside_it(panel: SearchPanel) -> None:
    setup, card = panel.setup, panel.setup.cards[0]
    panel.compose()
    card.form.fields["select"].values.put(("no_such",))  # type: ignore[attr-defined]
    setup.update_notes()
    assert (
        card.wrong.text().startswith("The selection (type no_such)")
        and not card.wrong.isHidden()
        and not setup.run_button.isEnabled()
    )
    card.form.fields["select"].values.put(("linear",))  # type: ignore[attr-defined]
    setup.goals.limits[0].number.put("")
    setup.update_notes()
    assert card.wrong.isHidden() and "no limit" in setup.goals.wrong.text() and not setup.run_button.isEnabled()
    setup.goals.limits[0].number.put("x")
    setup.update_notes()
    assert "not a constraint" in setup.goals.wrong.text() and not setup.run_button.isEnabled()
    setup.goals.limits[0].removed.emit()
    setup.update_notes()
    assert setup.run_button.isEnabled() and setup.wrong.isHidden()
    card.removed.emit()
    setup.update_notes()
    assert "Nothing varies" in setup.wrong.text() and not setup.run_button.isEnabled()
    setup.run()
    assert not panel.searches.studies


@pytest.mark.slow
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
            Vary("parallel", Select("name", ("fc1",)), values="1, 4, 16", per="all"),
        ),
        goals=(Goal("loss", "low", 2.0), Goal("weight_bits")), within=("size_bytes<=1.5MiB", "accuracy>=90%"),
        summed=True, sampler="random", pruner="median", trials=7, patience=3, seed=5, warm=2, score=DATA,
    )  # fmt: skip
    panel.setup.put(quiet_spec)
    got = panel.setup.spec()
    assert got.space[0] == quiet_spec.space[0] and got.space[1] == quiet_spec.space[1]
    assert got.space[2].key == "prune.sparsity" and got.space[2].when == quiet_spec.space[2].when
    assert got.space[3:] == (quiet_spec.space[3], replace(quiet_spec.space[4], fit=False), quiet_spec.space[5])
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
    assert "own recipe: prune" in panel.setup._recipe_note.text() and panel.setup.counted.text() == "2 configurations"
    assert panel.setup.spec().trials == 4 and panel.setup.spec().study == "own"
    told: list[object] = []
    panel._session.problem.connect(told.append)
    path.write_text("triels = 4\n", encoding="utf-8")
    panel.setup.open_file(path)
    assert "triels" in str(told[0]) and panel.setup.spec().trials == 4  # the form stays as it was


def test_what_no_trial_can_hold_is_told_before_any_runs(panel: SearchPanel, runner: list[FakeRunner]) -> None:
    setup = panel.setup
    panel.compose()
    setup.goals.limits[0].number.put("1")
    setup.update_notes()
    assert "weight_bits<=1 cannot be held: the least possible is" in setup.wrong.text()
    assert not setup.wrong.isHidden() and not setup.run_button.isEnabled()
    least = float(setup.wrong.text().partition("possible is ")[2].split(" ")[0].rstrip("."))
    setup.goals.limits[0].number.put(f"{least + 0.01:.2f}")
    setup.update_notes()
    assert setup.wrong.isHidden() and setup.run_button.isEnabled()
    told: list[object] = []
    panel._session.problem.connect(told.append)
    panel.start(replace(setup.spec(), within=("weight_bits<=1",)))
    assert "least possible" in str(told[0]) and not panel.searches.studies
    panel.start(replace(setup.spec(), pruner="median"))
    assert "there are no rungs" in str(told[1]) and not panel.searches.studies


@pytest.mark.slow
def test_the_bounds_of_the_pruner_are_fields(panel: SearchPanel) -> None:
    spec = replace(panel.setup.spec(), pruner="threshold", rungs=(8, 16), lower=0.5, judge_from=8)
    panel.setup.put(spec)
    panel.setup.how.folds["Weak trials end early"].unfold()
    assert panel.setup.spec() == spec and panel.setup.how.editor("upper").get() is None
    panel.setup.how.editor("lower").put(None)
    panel.setup.update_notes()
    assert "no bound" in panel.setup.wrong.text() and not panel.setup.run_button.isEnabled()


@pytest.mark.slow
def test_an_architecture_is_varied_only_of_a_model_that_has_a_configuration(panel: SearchPanel) -> None:
    entry = Vary("config", key="num_hidden_layers", values="1, 2", per="all")
    panel.setup.put(SearchSpec(space=(entry,)))
    assert "has no configuration" in panel.setup.wrong.text()
    assert not panel.setup.run_button.isEnabled()
    problems: list[str] = []
    panel._session.problem.connect(lambda error: problems.append(error.message))
    panel.start(SearchSpec(space=(entry,), score=DATA))
    assert problems and "has no configuration" in problems[0] and not panel.searches.studies


def test_fields_follow_the_theme(qtbot: QtBot, qapp: QApplication) -> None:
    appearance = Appearance(qapp, "light")
    try:
        field = QWidget()
        apply_field_style(field)
        wrong = QLabel("no number", field)
        wrong.setProperty("role", "wrong")
        qtbot.addWidget(field)
        field.show()
        for look in (LIGHT, DARK, LIGHT):
            appearance.set_mode(look.name)
            qtbot.waitUntil(lambda look=look: wrong.palette().windowText().color() == QColor(look.bad))
    finally:
        appearance.set_mode("light")
        appearance.deleteLater()
