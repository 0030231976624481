"""The recipe and the forms of its steps, through the window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt
from pytestqt.qtbot import QtBot

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.features.recipe.panel import MIME, PENDING, RecipePanel
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.form import SelectEditor
from espalier.model.formats.integer import Integer
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.jobs.kinds import (
    AnalyseJob,
)
from espalier.passes.select import Select
from tests.gui.conftest import small_graph
from tests.gui.recipes import quantise

pytestmark = pytest.mark.gui


def recipe_of(window: Window) -> RecipePanel:
    panel = window.docks.panels["recipe"]
    assert isinstance(panel, RecipePanel)
    return panel


def names(window: Window) -> list[str]:
    document = window.session.document
    return [s.pass_name for s in document.recipe.steps] if document else []


def test_recipe_lists_trace_and_steps_in_words(opened: Window) -> None:
    quantise(opened)
    texts = [recipe_of(opened).model.index(i).data() for i in range(2)]
    assert texts == ["Trace. demo:small · x", "Quantise. type linear · weight int 8/4. 2 nodes"]


def test_recipe_keys_switch_move_and_remove(opened: Window, qtbot: QtBot) -> None:
    quantise(opened)
    opened.actions_table.run("remove_dropout")
    panel = recipe_of(opened)
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert names(opened) == ["remove_dropout", "quantize"] and panel.step == 1
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert not opened.session.document.recipe.steps[1].enabled  # type: ignore[union-attr]
    qtbot.keyClick(panel.view, Qt.Key.Key_Delete)
    assert names(opened) == ["remove_dropout"]
    for _ in range(3):
        opened.session.undo()
    assert names(opened) == ["quantize", "remove_dropout"]


def test_the_recipe_that_is_edited_is_the_one_that_is_shown(opened: Window, qtbot: QtBot) -> None:
    """Edits wait while the worker is busy; a place in the recipe of before would be another step's."""
    quantise(opened)
    opened.actions_table.run("remove_dropout")
    session, panel = opened.session, recipe_of(opened)
    session.run_pass("prune", PruneOptions(0.5))
    assert names(opened) == ["quantize", "remove_dropout"] and session.pending_edits
    assert panel.model.lines[3].result == PENDING and not [x for x in panel.model.lines[:3] if x.result == PENDING]
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Delete)
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert [(s.pass_name, s.enabled) for s in session.recipe.steps] == [("remove_dropout", False), ("prune", True)]
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert session.recipe.steps[0].enabled and [x.step for x in panel.model.lines] == [None, 0, 1]
    opened.services.forms.sweep_step(1)
    assert "has not run yet" in opened.banner.text
    for _ in range(3):
        session.undo()
    assert len(session.pending_edits) == 1 and [s.pass_name for s in session.recipe.steps][2:] == ["prune"]


def test_recipe_reorders_by_drag(opened: Window) -> None:
    quantise(opened)
    opened.actions_table.run("remove_dropout")
    data = QMimeData()
    data.setData(MIME, b"0")
    model = recipe_of(opened).model
    model.dropMimeData(data, Qt.DropAction.MoveAction, 3, 0, model.index(-1))
    assert names(opened) == ["remove_dropout", "quantize"]


def test_a_check_mark_switches_its_step(opened: Window, qtbot: QtBot) -> None:
    quantise(opened)
    view = recipe_of(opened).view
    spot = view.visualRect(recipe_of(opened).model.index(1)).topLeft()
    spot.setX(spot.x() + 18)
    spot.setY(spot.y() + 14)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert not opened.session.document.recipe.steps[0].enabled  # type: ignore[union-attr]


def test_editing_a_step_replaces_its_options(opened: Window) -> None:
    quantise(opened)
    recipe_of(opened).edit_wanted.emit(0)
    page = opened.findChild(OptionsWindow)
    assert page is not None
    page._form.put(QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(4, 2)}),)))  # type: ignore[attr-defined]
    page.apply()
    assert opened.session.document.recipe.steps[0].options.rules[0].formats["weight"] == Integer(4, 2)  # type: ignore[union-attr]
    assert page.isHidden()


def test_options_that_are_refused_stay_open_and_say_why(opened: Window) -> None:
    opened.actions_table.run("quantise")
    page = opened.findChild(OptionsWindow)
    assert page is not None
    page._form.put(QuantizeOptions((Rule(Select("type", ("conv2d",)), {"weight": Integer(4, 2)}),)))  # type: ignore[attr-defined]
    page.apply()
    assert page.isVisible() and "matches no node" in page._error.text()
    page.close()


@pytest.mark.slow
def test_quantise_starts_with_the_selection(opened: Window) -> None:
    opened.session.select(("fc2",))
    opened.actions_table.run("quantise")
    page = opened.findChild(OptionsWindow)
    assert page and page._form.value().rules[0].select == Select("name", ("fc2",))  # type: ignore[attr-defined]
    page.close()


@pytest.mark.slow
def test_steps_and_edits_are_called_as_their_passes_are(opened: Window) -> None:
    quantise(opened)
    opened.session.enable_step(0, False)
    assert opened.session.open_document.undo_label == "Disable Quantise"
    opened.session.undo()
    opened.session.remove_step(0)
    assert opened.session.open_document.undo_label == "Remove Quantise"


@pytest.mark.slow
def test_a_step_does_not_count_its_nodes_twice(opened: Window) -> None:
    rule = Rule(Select("name", ("fc1", "fc2")), {"weight": Integer(8, 4)})
    opened.session.run_pass("quantize", QuantizeOptions((rule,)))
    assert recipe_of(opened).model.index(1).data() == "Quantise. 2 nodes · weight int 8/4"


@pytest.mark.slow
def test_asking_twice_shows_one_form_that_follows_the_selection(opened: Window) -> None:
    def pages() -> list[OptionsWindow]:
        return [p for p in opened.findChildren(OptionsWindow) if p.isVisible()]

    opened.actions_table.run("quantise")
    opened.session.select(("fc2",))
    opened.actions_table.run("quantise")
    assert len(pages()) == 1
    assert pages()[0]._form.value().rules[0].select == Select("name", ("fc2",))  # type: ignore[attr-defined]
    pages()[0]._form.put(QuantizeOptions())  # type: ignore[attr-defined]
    opened.session.select(("fc1",))
    opened.actions_table.run("quantise")
    assert pages()[0]._form.value() == QuantizeOptions()  # type: ignore[attr-defined]
    opened.actions_table.run("prune")
    assert len(pages()) == 2
    opened.session.close()
    assert not pages()


@pytest.mark.slow
def test_a_form_of_a_step_that_has_gone_says_so(opened: Window) -> None:
    quantise(opened)
    recipe_of(opened).edit_wanted.emit(0)
    page = next(p for p in opened.findChildren(OptionsWindow) if p.isVisible())
    opened.session.remove_step(0)
    page.apply()
    assert page.isVisible() and "changed or removed" in page._error.text() and names(opened) == []
    page.close()


@pytest.mark.slow
def test_evaluate_offers_the_columns_of_a_file(opened: Window, tmp_path: Path, qtbot: QtBot) -> None:
    path = tmp_path / "films.csv"
    path.write_text("words,stars,mood\nfine,5,good\npoor,1,bad\n", encoding="utf-8")
    opened.actions_table.run("evaluate")
    page = next(p for p in opened.findChildren(OptionsWindow) if p.isVisible())
    page.apply()
    assert page.isVisible() and "no data" in page._error.text()
    editors = page._form.editors  # type: ignore[attr-defined]
    editors["data"]._chosen(str(path))
    qtbot.waitUntil(lambda: bool(editors["text"].choice.values), timeout=5000)
    assert editors["text"].choice.values == ("", "words", "stars", "mood")
    editors["text"].choice.put("words")
    editors["label"].choice.put("mood")
    page.apply()
    job = opened.session.jobs[-1].job
    assert isinstance(job, AnalyseJob)
    assert (job.step.options.data, job.step.options.text, job.step.options.label) == (str(path), "words", "mood")


def test_a_selection_stands_in_the_form_by_its_modules(qtbot: QtBot) -> None:
    graph = small_graph()
    node = replace(graph.nodes["fc1"], target="block.fc1")
    editor = SelectEditor(graph.replace(node))
    qtbot.addWidget(editor)
    editor.put(Select("name", ("fc1", "fc2")))
    assert editor.values.text() == "block.fc1, fc2" and editor.values.cursorPosition() == 0
    assert editor.get() == Select("name", ("fc1", "fc2"))
