"""Plug-ins in the window: what the worker told becomes menus, forms and steps; what is missing is told once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QMenu

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.features.problems.state import problems_of
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.shell.plugins_window import PluginsWindow
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.data_fields import DataField
from espalier.app.widgets.forms.format_editor import FormatEditor
from espalier.model.data.preview import preview
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import DataError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.base import Report, StepResult
from espalier.passes.jobs.kinds import AnalyseJob, OpenJob, PluginJob, ReplayJob, ReplayResult
from espalier.passes.recipes.offered import OfferedField, OfferedPass, PluginState
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui

TIMES = OfferedField("times", int, False, 2, {"min": 1, "max": 9, "help": "how often"})
TAG = OfferedPass("gui_tag", "transform", "Tag nodes", "Writes a tag.", (TIMES,))
FORMAT = """
from dataclasses import dataclass
from typing import ClassVar
from espalier.model.formats.integer import Integer
from espalier.model.registry import FORMATS

@FORMATS.register("mine_format")
@dataclass(frozen=True, slots=True)
class Mine(Integer):
    name: ClassVar[str] = "mine_format"
"""
LOOK = OfferedPass("gui_look", "analysis", "Look at nodes", "Looks.", ())


@pytest.fixture
def plugged(window: Window, runner: list[FakeRunner], tmp_path: Path) -> Iterator[Window]:
    """The window with one plug-in, given as on the command line, that the worker has loaded."""
    file = tmp_path / "mine.py"
    file.write_text(FORMAT)
    window.plugins.start([str(file)])
    job = runner[-1].waiting[0].job
    assert isinstance(job, PluginJob) and job.places[-1] == file
    runner[-1].finish((PluginState(str(file), (TAG, LOOK), ("mine_format",)),))
    yield window
    window.plugins.unload()


def recipe_of(window: Window) -> RecipePanel:
    panel = window.docks.panels["recipe"]
    assert isinstance(panel, RecipePanel)
    return panel


def lines(window: Window) -> list[str]:
    model = recipe_of(window).model
    return [str(model.index(i).data()) for i in range(model.rowCount())]


def answer_replay(window: Window, runner: list[FakeRunner]) -> ReplayJob:
    job = runner[-1].waiting[0].job
    assert isinstance(job, ReplayJob) and window.session.document is not None
    graph = job.cached[1] if job.cached else job.base
    graph = graph.replace(replace(graph["fc1"], source=graph["fc1"].source + " tagged"))
    done = StepResult(graph, Report("gui_tag", (), {"nodes": 1}), 0.1)
    count = len(job.recipe.active)
    runner[-1].finish(ReplayResult(graph, (*(None,) * (count - 1), done), {}))
    return job


def test_nothing_to_load_is_no_job(window: Window, runner: list[FakeRunner]) -> None:
    window.plugins.start()
    assert not runner[-1].waiting


def test_a_pass_of_a_plugin_is_a_step_like_any_other(plugged: Window, runner: list[FakeRunner]) -> None:
    open_small(plugged, runner)
    menu = QMenu(plugged)
    plugged.services.fill_plugins(menu)
    assert [a.text() for a in menu.actions()] == ["Tag nodes", "Look at nodes"] and menu.actions()[0].isEnabled()
    assert "Tag nodes" in [e.title for e in plugged.quick_find.entries("tag")]
    menu.actions()[0].trigger()
    page = plugged.findChild(OptionsWindow)
    assert page is not None and page._form.editors["times"].get() == 2  # type: ignore[attr-defined]
    page._form.editors["times"].put(3)  # type: ignore[attr-defined]
    page.apply()
    job = answer_replay(plugged, runner)
    assert job.recipe.steps == (Step("gui_tag", Raw({"times": 3})),)
    assert lines(plugged)[1] == "Tag nodes. times 3. 1 node"
    plugged.session.undo()
    assert len(lines(plugged)) == 1
    plugged.session.redo()
    recipe_of(plugged).edit_wanted.emit(0)
    page = plugged.findChildren(OptionsWindow)[-1]
    assert page._form.value().times == 3  # type: ignore[attr-defined]
    page.close()


def test_an_analysis_of_a_plugin_makes_a_table(plugged: Window, runner: list[FakeRunner]) -> None:
    open_small(plugged, runner)
    plugged.services.forms.run_plugin("gui_look")
    job = runner[-1].waiting[0].job
    assert isinstance(job, AnalyseJob) and job.step == Step("gui_look", Raw({}))
    runner[-1].finish(Report("gui_look", ({"node": "fc1", "seen": 1},)))
    assert plugged.docks.tables.current == "gui_look" and plugged.docks.tables.table.rows.shown


def test_a_format_of_a_plugin_can_be_chosen(plugged: Window, runner: list[FakeRunner]) -> None:
    open_small(plugged, runner)
    plugged.session.select(["fc1"])
    editor = plugged.docks.panels["inspector"].findChild(FormatEditor)
    assert editor is not None and "mine_format" in editor.names
    plugged.session.set_format(["fc1"], "weight", parse_format("mine_format(width=6)"))
    document = plugged.session.document
    assert document and document.graph["fc1"].precision["weight"].format.bits == 6
    plugged.plugins.unload()
    assert "mine_format" not in FORMATS and document.graph["fc1"].precision["weight"].format.bits == 6


def test_a_data_source_of_a_plugin_is_known_to_forms(window: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    file = tmp_path / "rows.py"
    file.write_text(
        "from espalier.model.data.base import SOURCES, DataSource\n"
        "SOURCES.add('mine', DataSource(lambda name, options: None))\n"
    )
    window.plugins.start([str(file)])
    runner[-1].finish((PluginState(str(file), sources=("mine",)),))
    completer = DataField().line.completer()
    assert completer is not None
    model = completer.model()
    assert "mine:" in [model.index(i, 0).data() for i in range(model.rowCount())]
    assert "mine data" in preview("mine:rows").description
    window.plugins.unload()
    with pytest.raises(DataError):
        preview("mine:rows")


def test_a_missing_plugin_is_told_once_and_all_else_works(window: Window, runner: list[FakeRunner]) -> None:
    project = small_project()
    fc1 = replace(project.base["fc1"], precision={"weight": Precision(Integer(8, 4))})
    step = Step("gui_tag", Raw({"times": 4}))
    saved = replace(project, recipe=Recipe((step,)), graph=project.base.replace(fc1))
    open_small(window, runner, saved)
    QCoreApplication.processEvents()
    assert "gui_tag" in window.banner.text and "Plug-ins…" in window.banner.text
    assert window.docks.docks["problems"].windowTitle() == "Problems 1"
    assert lines(window)[1] == "gui_tag (not available). times 4"
    window.plugins.load()
    runner[-1].finish(())
    assert "gui_tag" in window.banner.text, "it is still missing"
    window.plugins.load()
    runner[-1].finish((PluginState("mine.py", (TAG,)),))
    assert window.banner.text == "" and problems_of(window.session).errors == []
    window.plugins.load()
    runner[-1].finish(())
    window.banner.hide()
    runner[-1].waiting.clear()
    window.session.set_format(["fc2"], "weight", Integer(4, 2))
    document = window.session.document
    assert document and not runner[-1].waiting and window.banner.text == ""
    assert document.recipe.steps[0] == step and len(document.recipe) == 2
    assert {n.id for n in document.graph if n.precision} == {"fc1", "fc2"}, "what the missing pass did stays"
    recipe_of(window).edit_wanted.emit(0)
    assert "cannot be edited" in window.banner.text and window.findChild(OptionsWindow) is None


def test_the_list(plugged: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    plugged.actions_table.run("plugins")
    page = plugged.findChild(PluginsWindow)
    assert page is not None

    def rows() -> dict[str, str]:
        items = [page.tree.topLevelItem(i) for i in range(page.tree.topLevelItemCount())]
        return {i.text(0): i.text(1) for i in items if i}

    assert rows()["mine.py (command line)"] == "pass gui_tag, analysis gui_look, format mine_format"
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0")
    plugged.plugins.add(bad)
    assert rows()["bad.py"] == "loading…" and page.state.text() == "Loading…" and not page._reload.isEnabled()
    job = runner[-1].waiting[0].job
    assert isinstance(job, PluginJob) and bad in job.places
    text = "The plug-in bad.py raised ZeroDivisionError: division by zero (line 1)."
    runner[-1].finish((PluginState(str(bad), error=text, hint="Correct it."),))
    assert (
        rows()["bad.py"] == "raised ZeroDivisionError: division by zero (line 1)."
        and page._reload.isEnabled()
        and text in plugged.banner.text
    )
    assert plugged.settings.plugins == (str(bad),) and "gui_tag" not in PASSES
    page.tree.setCurrentItem(page.tree.topLevelItem(0))
    assert page.details.text() == f"{bad}\n{text} Correct it."
    page.remove()
    runner[-1].finish(())
    assert plugged.settings.plugins == () and "bad.py" not in rows()
    assert plugged.banner.text == "" and problems_of(plugged.session).errors == [], "its error went with it"
    page.close()


def test_loading_survives_another_document(plugged: Window, runner: list[FakeRunner]) -> None:
    plugged.plugins.load()
    open_job = next((j for j in runner[-1].waiting if isinstance(j.job, OpenJob)), None)
    assert open_job is None
    runner[-1].waiting.reverse()
    plugged.session.close()
    assert [type(j.job) for j in runner[-1].waiting] == [PluginJob]
    runner[-1].finish(())
    assert not plugged.plugins.loading and not plugged.plugins.specs
