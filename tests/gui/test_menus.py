"""Rows of menus: a feature's come from its folder and stand where their menu and group say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QMainWindow
from pytestqt.qtbot import QtBot

from espalier.app.menu import MENUS, Action
from espalier.app.shell import menus
from espalier.app.shell.menus import Menus, in_order
from espalier.app.shell.window import Window

SHELL = Path(menus.__file__).parent
FEATURES = SHELL.parent / "features"


def row(name: str, menu: str, group: int = 0) -> Action:
    return Action(name, name, menu, lambda: None, group=group)


def test_rows_stand_by_menu_then_group() -> None:
    own = [row("a", "File"), row("z", "File", 2), row("h", "Help"), row("b", "File/Export", 1)]
    features = [row("s", "Search"), row("k", "Help"), row("r", "File", 1)]
    assert [r.id for r in in_order([*own, *features], ("File", "", "Help"))] == ["a", "b", "r", "z", "s", "h", "k"]


def test_each_feature_with_a_menu_registers_it_and_the_shell_names_none() -> None:
    folders = {f.parent.name for f in FEATURES.glob("*/menu.py")}
    assert {name for name, _ in MENUS.items()} == folders >= {"kernels", "search"}
    for file in [*SHELL.glob("*.py"), *SHELL.glob("actions/*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert file.name == "docks.py" or not module.endswith(".actions") or "features" not in module, file


@pytest.mark.gui
def test_rows_of_features_are_in_the_menus(window: Window) -> None:
    titles = [a.title() for a in (window.actions_table.menus[m] for m in ("Run", "Search", "Help"))]
    assert titles == ["Run", "Search", "Help"]
    places = {r.id: r.menu for r in window.actions_table.rows}
    assert places["kernels_run"] == "Run" and places["kernels_explain"] == "Help" and places["search_run"] == "Search"
    heads = list(dict.fromkeys(r.menu.partition("/")[0] for r in window.actions_table.rows))
    assert heads == ["File", "Edit", "View", "Model", "Run", "Search", "Help"]


@pytest.mark.gui
def test_menus_fit_800_pixels_in_one_column(window: Window) -> None:
    for title, menu in window.actions_table.menus.items():
        places = [menu.actionGeometry(action) for action in menu.actions() if action.isVisible()]
        columns = len({place.left() for place in places})
        assert columns == 1 or (title in ("Model", "Model/Report") and columns == 2), title  # which list all passes
        assert max(place.bottom() for place in places) <= 800, title


@pytest.mark.gui
def test_an_action_may_delete_its_window(qtbot: QtBot) -> None:
    """As one that closes a tab, from the find field, while a dialog runs the events."""
    window = QMainWindow()

    def close() -> None:
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    rows = [Action("close", "Close", "File", close), Action("graph", "Graph", "Model/Report", lambda: None)]
    Menus(window, window.menuBar(), rows, ("File", "Model"), lambda: True).run("close")
