"""The menu Help."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QVBoxLayout, QWidget

from espalier.app.errors import open_file
from espalier.app.menu import Action, always
from espalier.app.settings import data_folder
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted

if TYPE_CHECKING:
    from espalier.app.features.guide.window import GuideWindow
    from espalier.app.shell.keys import KeyBindings
    from espalier.app.widgets.style import Appearance

KEYS = (
    (tr("Graph"), tr("Bypass, mute, rename the selected nodes"), "Delete; M; F2"),
    (tr("Graph"), tr("Copy, cut, paste a configuration"), "Ctrl+C; Ctrl+X; Ctrl+V"),
    (tr("Graph"), tr("Duplicate the selected node"), "Ctrl+D"),
    (tr("Inspector"), tr("Next, previous field"), "Tab, Shift+Tab"),
    (tr("Inspector"), tr("Step a number, by ten"), "Up, Down; PgUp, PgDown"),
    (tr("Inspector"), tr("Back to the graph"), "Esc"),
    (tr("Forms"), tr("Apply"), "Return"),
    (tr("Forms"), tr("Close without applying"), "Esc"),
    (tr("Recipe"), tr("Edit the selected step"), "Return"),
    (tr("Recipe"), tr("Enable or disable the selected step"), "Space"),
    (tr("Recipe"), tr("Move the selected step"), "Alt+Up, Alt+Down"),
    (tr("Recipe"), tr("Remove the selected step"), "Delete"),
    (tr("Tables"), tr("Copy rows as TSV"), "Ctrl+C"),
    (tr("Console"), tr("Run, or continue an open block"), "Return"),
    (tr("Console"), tr("Run as it is; new line"), "Ctrl+Return; Shift+Return"),
    (tr("Console"), tr("Earlier, later text"), "Up, Down"),
    (tr("Console"), tr("Complete"), "Tab"),
    (tr("Console"), tr("Stop the running text"), "Ctrl+C"),
    (tr("Console"), tr("Clear the output"), "Ctrl+L"),
    (tr("Console"), tr("Back to the graph"), "Esc"),
)


def rows(
    window: QWidget,
    appearance: Appearance,
    keys: Callable[[], KeyBindings],
    ask: Callable[[], object],
    tour: Callable[[], object],
) -> list[Action]:
    """Rows for the guide, the shortcuts, crash reports and the version."""
    return [
        Action("guide", "Guide", "Help", partial(guide, window, appearance), "F1", needs=always,
               help="The manual, with search"),
        Action("what_is", "What is this?", "Help", ask, "Shift+F1", needs=always,
               help="Explain the word under the pointer: a format, a pass, a column, a figure"),
        Action("tour", "Tour", "Help", tour, needs=always, help="Five steps through the window"),
        Action("shortcuts", "Shortcuts", "Help", lambda: shortcuts(window, keys()), "Ctrl+F1", needs=always,
               help="All keys, which you can change"),
        Action("crash_reports", "Crash reports", "Help", lambda: open_file(data_folder("crashes")), needs=always),
        Action("about", "About Espalier", "Help", partial(about, window), needs=always, group=1),
    ]  # fmt: skip


def _page(window: QWidget, title: str, width: int, height: int) -> tuple[QDialog, QVBoxLayout]:
    page = QDialog(window)
    page.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    page.setWindowTitle(title)
    page.resize(width, height)
    box = QVBoxLayout(page)
    box.setContentsMargins(20, 18, 20, 18)
    return page, box


def shortcuts(window: QWidget, keys: KeyBindings) -> None:
    """Show all keys in a table in which they can be changed."""
    from espalier.app.shell.shortcuts_window import ShortcutsWindow

    page = window.findChild(ShortcutsWindow) or ShortcutsWindow(window, keys, KEYS)
    page.show()
    page.raise_()
    page.activateWindow()


def guide(window: QWidget, appearance: Appearance) -> GuideWindow:
    """Show the guide in a separate window."""
    from espalier.app.features.guide.window import GuideWindow

    page = window.findChild(GuideWindow) or GuideWindow(window, appearance)
    page.show()
    page.raise_()
    page.activateWindow()
    return page


def about(window: QWidget) -> None:
    """Show what the program is, and its versions."""
    from espalier.model.document.project import APP

    page, box = _page(window, tr("About Espalier"), 420, 200)
    name = QLabel("Espalier")
    name.setProperty("role", "display")
    box.addWidget(name)
    box.addWidget(muted(tr("A workbench for neural-network compression: see a model as a graph, compress it "
                        "layer by layer, and see the cost of each edit.")))  # fmt: skip
    versions = tr("Version {} · Python {} · Qt {}", APP, platform.python_version(), PySide6.__version__)
    box.addWidget(muted(versions))
    box.addStretch(1)
    page.show()
