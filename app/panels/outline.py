"""The outline: the model as a tree of modules, filtered, selected together with the canvas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    QObject,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QVBoxLayout, QWidget

from app.canvas.hierarchy import default_open
from app.fields import Check
from app.panels.heading import empty_state
from app.panels.outline_model import OutlineModel
from app.panels.outline_view import OutlineTree
from app.words import plural
from model.document import Change

if TYPE_CHECKING:
    from app.session import Session

OPEN_ROWS = 40
OPEN_MATCHES = 300  # with more matches than this, groups stay as they are
EMPTY = "The modules of a model stand here once one is open."
Select = QItemSelectionModel.SelectionFlag


class OutlinePanel(QWidget):
    """`reveal(node)` asks the canvas to bring a node into view."""

    reveal = Signal(str)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._open: set[str] = set()
        self._syncing = False
        self._later = QTimer(self, interval=0, singleShot=True)
        self._later.timeout.connect(self._mark_again)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.model = OutlineModel()
        self.model.setParent(self)
        self.view = OutlineTree()
        self.view.setModel(self.model)
        self.field = QLineEdit(placeholderText="Filter by name, operation or path")
        self.field.setAccessibleName("Filter of the outline")
        self.field.installEventFilter(self)
        self.empty = empty_state(EMPTY)
        self.shapes = Check()
        self._arrange()
        self._connect()
        self._reload()

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 6)
        column.setSpacing(6)
        head = QVBoxLayout()
        head.setContentsMargins(12, 0, 12, 0)
        head.addWidget(self.field)
        foot = QVBoxLayout()
        foot.setContentsMargins(12, 0, 12, 0)
        foot.addWidget(self.shapes)
        column.addLayout(head)
        column.addWidget(self.view, 1)
        column.addWidget(self.empty, 1)
        column.addLayout(foot)

    def _connect(self) -> None:
        session, view = self._session, self.view
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.selection_changed.connect(self._select_rows)
        self.field.textChanged.connect(self._filter)
        self.shapes.edited.connect(self._reload)
        view.selectionModel().selectionChanged.connect(self._rows_selected)
        self.model.many_changed.connect(view.viewport().update)
        view.activated_row.connect(self._activated)
        view.expanded.connect(lambda index: self._note(index, True))
        view.collapsed.connect(lambda index: self._note(index, False))
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._menu)

    # -- content

    def _opened(self) -> None:
        self._open = set()
        self.field.clear()
        self._reload()

    def _reload(self) -> None:
        document = self._session.document
        fresh = not self._open
        self._quietly(lambda: self.model.load(document.graph if document else None, self.shapes.get()))
        if fresh and self.model.tree:
            self._open = set(default_open(self.model.tree, OPEN_ROWS))
        hidden = self.model.hidden
        self.shapes.setText(f"Show {plural(hidden, 'shape operation')}" if hidden else "Show shape operations")
        self.shapes.setVisible(bool(hidden) or self.shapes.get())
        self._filter(self.field.text())

    def _changed(self, change: Change) -> None:
        delta = change.delta
        if delta.added or delta.removed or not self.model.update(change.after.graph, delta.changed):
            self._reload()

    def _filter(self, text: str) -> None:
        found = 0

        def apply() -> None:
            nonlocal found
            found = self.model.filter(text)

        self._quietly(apply)
        self._expand(text, found)
        document = self._session.document
        nothing = bool(text.strip()) and not found
        self.empty.setText(f"No node matches “{text.strip()}”." if nothing else EMPTY)
        self.empty.setVisible(nothing or document is None)
        self.view.setVisible(not nothing and document is not None)
        self.field.setVisible(document is not None)
        self._select_rows(self._session.selection)

    def _expand(self, text: str, found: int) -> None:
        self._syncing = True
        everything = bool(text.strip()) and found <= OPEN_MATCHES
        for item in self.model.group_items():
            if everything or self.model.group_path(item) in self._open:
                self.view.setExpanded(self.model.index_of(item), True)
        self._syncing = False

    def _note(self, index: QModelIndex, opened: bool) -> None:
        """Remember which groups the user holds open."""
        item = index.internalId()
        if not self._syncing and not self.field.text().strip() and self.model.is_group(item):
            path = self.model.group_path(item)
            self._open.add(path) if opened else self._open.discard(path)
            if opened and len(self._session.selection) > 1:
                self._later.start()

    def _mark_again(self) -> None:
        place = self.view.verticalScrollBar().value()
        self._select_rows(self._session.selection)
        self.view.verticalScrollBar().setValue(place)

    def _quietly(self, act: Callable[[], object]) -> None:
        self._syncing = True
        act()
        self._syncing = False

    # -- selection

    def _rows_selected(self, selected: QItemSelection, deselected: QItemSelection) -> None:
        if self._syncing:
            return
        model = self.view.selectionModel()
        if QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
            gone = self._nodes_of(deselected.indexes())
            chosen = {n: None for n in self._session.selection if n not in gone} | self._nodes_of(selected.indexes())
        else:
            chosen = self._nodes_of(model.selectedIndexes())
        self._syncing = True
        self._session.select(tuple(chosen))
        self._syncing = False

    def _nodes_of(self, rows: list[QModelIndex]) -> dict[str, None]:
        return dict.fromkeys(n for row in rows for n in self.model.nodes_of(row.internalId()))

    def _select_rows(self, ids: tuple[str, ...]) -> None:
        """Mark the rows of nodes selected elsewhere; those inside closed groups wait until these open."""
        if self._syncing:
            return
        group = self.model.common_group(ids)
        found = [group] if group is not None else [i for n in ids if (i := self.model.item_of(n)) is not None]
        rows = found if len(found) <= 1 else [i for i in found if self._in_view(i)]
        self._syncing = True
        self.view.selectionModel().select(_ranges([self.model.index_of(i) for i in rows]), Select.ClearAndSelect)
        if found:
            first = self.model.index_of(found[0])
            self.view.selectionModel().setCurrentIndex(first, Select.NoUpdate)
            self.view.scrollTo(first)
        self._syncing = False

    def _in_view(self, item: int) -> bool:
        """Whether all groups around a row are open."""
        index = self.model.index_of(item).parent()
        while index.isValid():
            if not self.view.isExpanded(index):
                return False
            index = index.parent()
        return True

    def _activated(self, index: QModelIndex) -> None:
        item = index.internalId()
        if self.model.is_group(item):
            self.view.setExpanded(index, not self.view.isExpanded(index))
        else:
            self.reveal.emit(self.model.nodes_of(item)[0])

    # -- menu and keys

    def _menu(self, at: QPoint) -> None:
        index = self.view.indexAt(at)
        menu = QMenu(self)
        if index.isValid():
            nodes = self.model.nodes_of(index.internalId())
            menu.addAction("Show on canvas", lambda: self.reveal.emit(nodes[0]))
            menu.addAction("Select all of this kind", lambda: self.select_kind(nodes[0]))
            menu.addAction("Copy path", lambda: QGuiApplication.clipboard().setText(self._copied(index)))
            menu.addSeparator()
        menu.addAction("Expand all", self.view.expandAll)
        menu.addAction("Collapse all", self.view.collapseAll)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.view.viewport().mapToGlobal(at))

    def _copied(self, index: QModelIndex) -> str:
        item = index.internalId()
        return self.model.group_path(item) if self.model.is_group(item) else self.model.nodes_of(item)[0]

    def select_kind(self, node: str) -> None:
        """Select every node that does the same operation."""
        if self._session.document:
            graph = self._session.document.graph
            self._session.select(tuple(n.id for n in graph if n.op == graph.nodes[node].op))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape and self.field.text():
                self.field.clear()
                return True
            if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return) and self.model.rowCount():
                self.view.setFocus()
                if not self.view.currentIndex().isValid():
                    self.view.setCurrentIndex(self.model.index(0, 0))
                return True
        return super().eventFilter(watched, event)


def _ranges(rows: list[QModelIndex]) -> QItemSelection:
    """A selection of rows, neighbours joined: the cost of a selection grows with its ranges."""
    selection = QItemSelection()
    start = last = None
    for row in rows:
        if last is not None and row.row() == last.row() + 1 and row.parent() == last.parent():
            last = row
            continue
        if start is not None and last is not None:
            selection.append(QItemSelectionRange(start, last))
        start = last = row
    if start is not None and last is not None:
        selection.append(QItemSelectionRange(start, last))
    return selection
