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
    ("Inspector", "Next, last field", "Tab, Shift+Tab"),
    ("Inspector", "Step a number, by ten", "Up, Down; PgUp, PgDown"),
    ("Inspector", "Back to the graph", "Esc"),
    ("Forms", "Apply", "Return"),
    ("Forms", "Close without applying", "Esc"),
    ("Recipe", "Edit the chosen step", "Return"),
    ("Recipe", "Switch the chosen step on or off", "Space"),
    ("Recipe", "Move the chosen step", "Alt+Up, Alt+Down"),
    ("Recipe", "Remove the chosen step", "Delete"),
    ("Tables", "Copy rows as TSV", "Ctrl+C"),
    ("Find", "Find a node or a command", "Ctrl+Shift+P"),
)


def rows(window: QWidget, appearance: Appearance, all_rows: Callable[[], Sequence[Action]]) -> list[Action]:
    """The guide, keys, crash reports, the version."""
    return [
        Action("guide", "Guide", "Help", partial(guide, window, appearance), "F1", needs=always,
               help="The manual, with a search over all pages"),
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
    """All keys in a table."""
    page, box = _page(window, "Shortcuts", 560, 620)
    listed = [{"where": r.menu.replace("/", " › "), "what": r.title.rstrip("…"),
             "key": QKeySequence(r.key).toString(QKeySequence.SequenceFormat.NativeText)}
            for r in rows if r.key]  # fmt: skip
    listed += [{"where": where, "what": what, "key": key} for where, what, key in KEYS]
    keys = Table()
    keys.show_rows(listed)
    keys.resizeColumnsToContents()
    keys.horizontalHeader().setStretchLastSection(True)
    keys.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    wide = sum(keys.columnWidth(i) for i in range(keys.model().columnCount())) + 70
    high = (len(listed) + 1) * keys.verticalHeader().defaultSectionSize() + 60
    page.resize(wide, min(high, window.height() - 40))
    box.addWidget(keys)
    page.show()


def guide(window: QWidget, appearance: Appearance) -> None:
    """The guide, in a window of its own that stays while one works."""
    from espalier.app.features.guide.window import GuideWindow

    page = window.findChild(GuideWindow) or GuideWindow(window, appearance)
    page.show()
    page.raise_()
    page.activateWindow()


def about(window: QWidget) -> None:
    """What this is, and of which version."""
    from espalier.model.document.project import APP

    page, box = _page(window, "About Espalier", 420, 200)
    name = QLabel("Espalier")
    name.setProperty("role", "display")
    box.addWidget(name)
    box.addWidget(muted("A workbench for neural-network compression: see a model as a graph, shape it layer by layer, "
                        "and see at once what that costs."))  # fmt: skip
    versions = f"Version {APP} · Python {platform.python_version()} · Qt {PySide6.__version__}"
    box.addWidget(muted(versions))
    box.addStretch(1)
    page.show()
