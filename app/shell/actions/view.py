"""What the View and Help menus do."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QVBoxLayout

from espalier.app.errors import open_file
from espalier.app.settings import data_folder
from espalier.app.widgets.heading import muted
from espalier.app.widgets.table import Table

if TYPE_CHECKING:
    from espalier.app.shell.window import Window

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


def reveal(window: Window) -> None:
    """Bring the selection into view."""
    window.canvas.reveal(window.session.selection[0])


def next_panel(window: Window) -> None:
    """Put the keyboard into the next part of the window: graph, then each panel that shows."""
    docks, here = window.docks, QApplication.focusWidget()
    shown = [n for n, d in docks.docks.items() if d.isVisible() and not d.visibleRegion().isEmpty()]
    at = next((i for i, n in enumerate(shown) if here and docks.docks[n].isAncestorOf(here)), -1)
    if at + 1 < len(shown):
        docks.enter(shown[at + 1])
    else:
        window.canvas.setFocus()


def toggle_across(window: Window) -> None:
    """Let the graph flow across or down."""
    window.canvas.set_horizontal(not window.canvas.horizontal)


def toggle_casts(window: Window) -> None:
    """Show or hide where formats change along the edges."""
    window.canvas.set_show_casts(not window.canvas.show_casts)


def colour(window: Window, mode: str) -> None:
    """Colour the nodes."""
    window.canvas.set_mode(mode)


def theme(window: Window, mode: str) -> None:
    """Light, dark or as the system."""
    window.settings.mode = mode
    window.appearance.set_mode(mode)


def crash_reports(window: Window) -> None:
    """Open the folder of the crash reports."""
    open_file(data_folder("crashes"))


def _page(window: Window, title: str, width: int, height: int) -> tuple[QDialog, QVBoxLayout]:
    page = QDialog(window)
    page.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    page.setWindowTitle(title)
    page.resize(width, height)
    box = QVBoxLayout(page)
    box.setContentsMargins(20, 18, 20, 18)
    return page, box


def shortcuts(window: Window) -> None:
    """All keys in a table."""
    page, box = _page(window, "Shortcuts", 560, 620)
    rows = [{"where": r.menu.replace("/", " › "), "what": r.title.rstrip("…"),
             "key": QKeySequence(r.key).toString(QKeySequence.SequenceFormat.NativeText)}
            for r in window.actions_table.rows if r.key]  # fmt: skip
    rows += [{"where": where, "what": what, "key": key} for where, what, key in KEYS]
    keys = Table()
    keys.show_rows(rows)
    keys.resizeColumnsToContents()
    keys.horizontalHeader().setStretchLastSection(True)
    keys.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    wide = sum(keys.columnWidth(i) for i in range(keys.model().columnCount())) + 70
    high = (len(rows) + 1) * keys.verticalHeader().defaultSectionSize() + 60
    page.resize(wide, min(high, window.height() - 40))
    box.addWidget(keys)
    page.show()


def guide(window: Window) -> None:
    """The guide, in a window of its own that stays while one works."""
    from espalier.app.features.guide.window import GuideWindow

    page = window.findChild(GuideWindow) or GuideWindow(window, window.appearance)
    page.show()
    page.raise_()
    page.activateWindow()


def about(window: Window) -> None:
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
