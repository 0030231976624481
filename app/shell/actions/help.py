"""The menu Help."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QLabel, QVBoxLayout, QWidget

from espalier.app.errors import open_file
from espalier.app.menu import Action, always
from espalier.app.settings import data_folder
from espalier.app.widgets.heading import muted
from espalier.app.widgets.table import Table

if TYPE_CHECKING:
    from espalier.app.widgets.style import Appearance

KEYS = (
    ("Inspector", "Next, previous field", "Tab, Shift+Tab"),
    ("Inspector", "Step a number, by ten", "Up, Down; PgUp, PgDown"),
    ("Inspector", "Back to the graph", "Esc"),
    ("Forms", "Apply", "Return"),
    ("Forms", "Close without applying", "Esc"),
    ("Recipe", "Edit the selected step", "Return"),
    ("Recipe", "Enable or disable the selected step", "Space"),
    ("Recipe", "Move the selected step", "Alt+Up, Alt+Down"),
    ("Recipe", "Remove the selected step", "Delete"),
    ("Tables", "Copy rows as TSV", "Ctrl+C"),
    ("Find", "Find a node or a command", "Ctrl+Shift+P"),
)


def rows(window: QWidget, appearance: Appearance, all_rows: Callable[[], Sequence[Action]]) -> list[Action]:
    """Rows for the guide, the shortcuts, crash reports and the version."""
    return [
        Action("guide", "Guide", "Help", partial(guide, window, appearance), "F1", needs=always,
               help="The manual, with search"),
        Action("shortcuts", "Shortcuts", "Help", lambda: shortcuts(window, all_rows()), "Ctrl+F1", needs=always),
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


def shortcuts(window: QWidget, rows: Sequence[Action]) -> None:
    """Show all shortcuts in a table."""
    page, box = _page(window, "Shortcuts", 560, 620)
    entries = [{"where": r.menu.replace("/", " › "), "what": r.title.rstrip("…"),
             "key": QKeySequence(r.key).toString(QKeySequence.SequenceFormat.NativeText)}
            for r in rows if r.key]  # fmt: skip
    entries += [{"where": where, "what": what, "key": key} for where, what, key in KEYS]
    table = Table()
    table.show_rows(entries)
    table.resizeColumnsToContents()
    table.horizontalHeader().setStretchLastSection(True)
    table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    width = sum(table.columnWidth(i) for i in range(table.model().columnCount())) + 70
    height = (len(entries) + 1) * table.verticalHeader().defaultSectionSize() + 60
    page.resize(width, min(height, window.height() - 40))
    box.addWidget(table)
    page.show()


def guide(window: QWidget, appearance: Appearance) -> None:
    """Show the guide in a separate window."""
    from espalier.app.features.guide.window import GuideWindow

    page = window.findChild(GuideWindow) or GuideWindow(window, appearance)
    page.show()
    page.raise_()
    page.activateWindow()


def about(window: QWidget) -> None:
    """Show what the program is, and its versions."""
    from espalier.model.document.project import APP

    page, box = _page(window, "About Espalier", 420, 200)
    name = QLabel("Espalier")
    name.setProperty("role", "display")
    box.addWidget(name)
    box.addWidget(muted("A workbench for neural-network compression: see a model as a graph, compress it "
                        "layer by layer, and see the cost of each edit."))  # fmt: skip
    versions = f"Version {APP} · Python {platform.python_version()} · Qt {PySide6.__version__}"
    box.addWidget(muted(versions))
    box.addStretch(1)
    page.show()
