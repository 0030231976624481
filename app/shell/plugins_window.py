"""The list of plug-ins: where they lie, what each registered, what went wrong; add, remove, load again."""

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

from espalier.app.widgets.heading import muted, row_of
from espalier.app.words import plural
from espalier.passes.plugins.plugins import default_folder, plugin_files
from espalier.passes.recipes.offered import PluginState

if TYPE_CHECKING:
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.plugins import Plugins
    from espalier.app.widgets.style import Appearance

PLACE = Qt.ItemDataRole.UserRole
WORDS = (
    "Passes, number formats, costs, data sources and hardware operations of your own, from Python files. Passes run in "
    "the worker, not in the window; no code is ever taken from a project."
)


def added(state: PluginState) -> str:
    """What a plug-in registered, or why it did not."""
    if state.error:
        return state.error.removeprefix(f"The plug-in {Path(state.source).name} ")
    parts = [f"{'analysis' if p.kind == 'analysis' else 'pass'} {p.name}" for p in state.passes]
    parts += [*(f"format {f}" for f in state.formats), *(f"cost {c}" for c in state.costs),
              *(f"data source {s}" for s in state.sources), *state.others]  # fmt: skip
    return ", ".join(parts)


class PluginsWindow(QDialog):
    """A window beside the work."""

    def __init__(self, parent: QWidget, plugins: Plugins, dialogs: Dialogs, appearance: Appearance) -> None:
        super().__init__(parent, Qt.WindowType.Tool)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Plug-ins")
        self._plugins, self._dialogs, self._appearance = plugins, dialogs, appearance
        self.tree = QTreeWidget()
        self.tree.setColumnCount(2)
        self.tree.setHeaderLabels(["Plug-in", "What it adds"])
        self.tree.setAccessibleName("Plug-ins")
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        self.tree.header().resizeSection(0, 260)
        self.tree.setIndentation(14)
        self.tree.currentItemChanged.connect(lambda _: self._refresh_buttons())
        self.details = muted("")
        self.details.setMinimumHeight(3 * self.details.fontMetrics().lineSpacing())
        self.details.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state = muted("", wrap=False)
        self._remove = self._button("Remove", self.remove)
        self._reload = self._button("Load again", self._plugins.load)
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
        title = QLabel("Plug-ins")
        title.setProperty("role", "title")
        row = row_of(6)
        row.addWidget(self._button("Add file…", self._add_file))
        row.addWidget(self._button("Add folder…", self._add_folder))
        row.addWidget(self._remove)
        row.addStretch(1)
        row.addWidget(self.state)
        row.addWidget(self._reload)
        row.addWidget(self._button("Close", self.close))
        box = QVBoxLayout(self)
        box.setContentsMargins(16, 14, 16, 14)
        box.setSpacing(8)
        box.addWidget(title)
        box.addWidget(muted(WORDS))
        box.addWidget(self.tree, 1)
        box.addWidget(self.details)
        box.addLayout(row)

    # -- what is shown

    def refresh(self) -> None:
        """List the places and what the worker made of them."""
        chosen = self._place
        self.tree.clear()
        left = {s.source: s for s in self._plugins.states}
        for place in self._plugins.places:
            self._add_place(place, left)
        for state in left.values():
            if not Path(state.source).is_absolute():
                self._item(state.source, state, "An installed package")
        self.tree.expandAll()
        for i in range(self.tree.topLevelItemCount()):
            item = self.tree.topLevelItem(i)
            if item and item.data(0, PLACE) == chosen:
                self.tree.setCurrentItem(item)
        self._refresh_buttons()

    def _add_place(self, place: Path, left: dict[str, PluginState]) -> None:
        files = plugin_files(place)
        if not place.is_dir():
            item = self._item(place.name, left.pop(str(place.resolve()), None), str(place))
        else:
            item = self._item(place.name, None, str(place))
            item.setText(1, plural(len(files), "file") if files else "no Python file")
            for file in files:
                item.addChild(self._row(file.name, left.pop(str(file.resolve()), None), str(file)))
        if place == default_folder():
            item.setText(0, "Your plug-in folder")
            item.setText(1, plural(len(files), "file") if files else "empty; Python files in it are always loaded")
        elif place in self._plugins.given:
            item.setText(0, f"{item.text(0)} (command line)")
        item.setData(0, PLACE, place)

    def _item(self, name: str, state: PluginState | None, tip: str) -> QTreeWidgetItem:
        item = self._row(name, state, tip)
        self.tree.addTopLevelItem(item)
        return item

    def _row(self, name: str, state: PluginState | None, tip: str) -> QTreeWidgetItem:
        text = added(state) if state else "loading…" if self._plugins.loading else "not loaded"
        item = QTreeWidgetItem([name, text])
        item.setToolTip(0, tip)
        item.setToolTip(1, f"{state.error} {state.hint}" if state and state.error else text)
        item.setSizeHint(0, QSize(0, 24))
        if state and state.error:
            item.setForeground(1, QColor(self._appearance.palette.bad))
        return item

    # -- what is done

    @property
    def _place(self) -> Path | None:
        """The chosen file or folder of the list; of a file in a folder, the folder."""
        item = self.tree.currentItem()
        while item and item.parent():
            item = item.parent()
        found = item.data(0, PLACE) if item else None
        return found if isinstance(found, Path) else None

    def _refresh_buttons(self) -> None:
        item = self.tree.currentItem()
        self.details.setText(f"{item.toolTip(0)}\n{item.toolTip(1)}" if item else "")
        self._remove.setEnabled(self._place in (*self._plugins.listed, *self._plugins.given))
        self._reload.setEnabled(not self._plugins.loading)
        self.state.setText("Loading…" if self._plugins.loading else "")

    def remove(self) -> None:
        """Take the chosen file or folder off the list."""
        if self._place:
            self._plugins.remove(self._place)

    def _add_file(self) -> None:
        self._dialogs.ask_path("Add a plug-in", self._plugins.add, names="Python files (*.py)")

    def _add_folder(self) -> None:
        self._dialogs.ask_path("Add a folder of plug-ins", self._plugins.add, folder=True)
