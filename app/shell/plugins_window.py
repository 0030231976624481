"""The window Plug-ins: paths, what each file registered, errors; add, remove and reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QDialog,
    QHeaderView,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted, row_of
from espalier.passes.plugins.plugins import default_folder, plugin_files
from espalier.passes.recipes.offered import PluginState

if TYPE_CHECKING:
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.plugins import Plugins
    from espalier.app.widgets.style import Appearance

PATH = Qt.ItemDataRole.UserRole
INTRODUCTION = tr(
    "Passes, number formats, costs, data sources and hardware operations of your own, from Python files. Passes run in "
    "the worker, not in the window; no code is ever taken from a project."
)


def description(state: PluginState) -> str:
    """What a plug-in registered, or its error."""
    if state.error:
        return state.error.removeprefix(f"The plug-in {Path(state.source).name} ")
    parts = [tr("analysis {}", p.name) if p.kind == "analysis" else tr("pass {}", p.name) for p in state.passes]
    parts += [*(tr("format {}", f) for f in state.formats), *(tr("cost {}", c) for c in state.costs),
              *(tr("data source {}", s) for s in state.sources), *state.others]  # fmt: skip
    return ", ".join(parts)


class PluginsWindow(QDialog):
    """The window Plug-ins, non-modal."""

    def __init__(self, parent: QWidget, plugins: Plugins, dialogs: Dialogs, appearance: Appearance) -> None:
        super().__init__(parent, Qt.WindowType.Tool)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Plug-ins"))
        self._plugins, self._dialogs, self._appearance = plugins, dialogs, appearance
        self.tree = QTreeWidget()
        self.tree.setColumnCount(2)
        self.tree.setHeaderLabels([tr("Plug-in"), tr("Adds")])
        self.tree.setAccessibleName(tr("Plug-ins"))
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        self.tree.header().resizeSection(0, 260)
        self.tree.setIndentation(14)
        self.tree.currentItemChanged.connect(lambda _: self._refresh_buttons())
        self.details = muted("")
        self.details.setMinimumHeight(3 * self.details.fontMetrics().lineSpacing())
        self.details.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state = muted("", wrap=False)
        self._remove = self._button(tr("Remove"), self.remove)
        self._reload = self._button(tr("Reload"), self._plugins.load)
        self._build()
        self._plugins.changed.connect(self.refresh)
        self.refresh()
        self.resize(720, 400)

    def _button(self, title: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton(title)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: act())
        return button

    def _build(self) -> None:
        title = QLabel(tr("Plug-ins"))
        title.setProperty("role", "title")
        row = row_of(6)
        row.addWidget(self._button(tr("Add file…"), self._add_file))
        row.addWidget(self._button(tr("Add folder…"), self._add_folder))
        row.addWidget(self._remove)
        row.addStretch(1)
        row.addWidget(self.state)
        row.addWidget(self._reload)
        row.addWidget(self._button(tr("Close"), self.close))
        box = QVBoxLayout(self)
        box.setContentsMargins(16, 14, 16, 14)
        box.setSpacing(8)
        box.addWidget(title)
        box.addWidget(muted(INTRODUCTION))
        box.addWidget(self.tree, 1)
        box.addWidget(self.details)
        box.addLayout(row)

    # -- the list

    def refresh(self) -> None:
        """List the paths and the state of each file."""
        selected = self._selected_path
        self.tree.clear()
        states = {s.source: s for s in self._plugins.states}
        for path in self._plugins.paths:
            self._add_path(path, states)
        for state in states.values():  # those without a row yet
            if not Path(state.source).is_absolute():
                self._item(state.source, state, tr("An installed package"))
        self.tree.expandAll()
        for i in range(self.tree.topLevelItemCount()):
            item = self.tree.topLevelItem(i)
            if item and item.data(0, PATH) == selected:
                self.tree.setCurrentItem(item)
        self._refresh_buttons()

    def _add_path(self, path: Path, states: dict[str, PluginState]) -> None:
        """Add the rows of a file or folder; removes the states that it shows from `states`."""
        files = plugin_files(path)
        if not path.is_dir():
            item = self._item(path.name, states.pop(str(path.resolve()), None), str(path))
        else:
            item = self._item(path.name, None, str(path))
            item.setText(1, plural(len(files), "file") if files else tr("no Python file"))
            for file in files:
                item.addChild(self._row(file.name, states.pop(str(file.resolve()), None), str(file)))
        if path == default_folder():
            item.setText(0, tr("Your plug-in folder"))
            item.setText(1, plural(len(files), "file") if files else tr("empty; Python files in it are always loaded"))
        elif path in self._plugins.from_command_line:
            item.setText(0, tr("{} (command line)", item.text(0)))
        item.setData(0, PATH, path)

    def _item(self, name: str, state: PluginState | None, tip: str) -> QTreeWidgetItem:
        item = self._row(name, state, tip)
        self.tree.addTopLevelItem(item)
        return item

    def _row(self, name: str, state: PluginState | None, tip: str) -> QTreeWidgetItem:
        text = description(state) if state else tr("loading…") if self._plugins.loading else tr("not loaded")
        item = QTreeWidgetItem([name, text])
        item.setToolTip(0, tip)
        item.setToolTip(1, f"{state.error} {state.hint}" if state and state.error else text)
        item.setSizeHint(0, QSize(0, 24))
        if state and state.error:
            item.setForeground(1, QColor(self._appearance.palette.bad))
        return item

    # -- actions

    @property
    def _selected_path(self) -> Path | None:
        """The file or folder of the selected row; for a file in a folder, the folder."""
        item = self.tree.currentItem()
        while item and item.parent():
            item = item.parent()
        path = item.data(0, PATH) if item else None
        return path if isinstance(path, Path) else None

    def _refresh_buttons(self) -> None:
        item = self.tree.currentItem()
        self.details.setText(f"{item.toolTip(0)}\n{item.toolTip(1)}" if item else "")
        self._remove.setEnabled(self._selected_path in (*self._plugins.listed, *self._plugins.from_command_line))
        self._reload.setEnabled(not self._plugins.loading)
        self.state.setText(tr("Loading…") if self._plugins.loading else "")

    def remove(self) -> None:
        """Remove the selected file or folder from the list."""
        if path := self._selected_path:
            self._plugins.remove(path)

    def _add_file(self) -> None:
        self._dialogs.ask_path(tr("Add a plug-in"), self._plugins.add, names=tr("Python files (*.py)"))

    def _add_folder(self) -> None:
        self._dialogs.ask_path(tr("Add a folder of plug-ins"), self._plugins.add, folder=True)
