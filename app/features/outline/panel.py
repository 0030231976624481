"""Outline panel: the modules of the model as a tree, with a filter and the selection of the canvas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QVBoxLayout, QWidget

from espalier.app.canvas.hierarchy import default_open
from espalier.app.canvas.layout_worker import SYNCHRONOUS
from espalier.app.features.outline.model import Contents, OutlineModel, contents
from espalier.app.features.outline.selection import SharedSelection
from espalier.app.features.outline.view import OutlineTree
from espalier.app.jobs.latest_task import LatestTask
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Check
from espalier.app.widgets.heading import empty_state
from espalier.model.document.document import Change

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.session.session import Session

OPEN_ROWS = 40
OPEN_MATCHES = 300  # with more matches than this, groups are not expanded
EMPTY = tr("No model is open. Its modules are listed here.")


class OutlinePanel(QWidget):
    """`reveal(node)` requests the canvas to show a node; `open_wanted(path, opened)` and `all_wanted(opened)`
    request it to open or close the groups that the user opened or closed here.
    """

    reveal = Signal(str)
    open_wanted = Signal(str, bool)
    all_wanted = Signal(bool)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._open: set[str] = set()
        self._fresh = True  # no open groups are set yet
        self._expanded: set[str] = set()
        self._canvas_open: Callable[[], frozenset[str] | None] = lambda: None
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.model = OutlineModel()
        self.model.setParent(self)
        self.view = OutlineTree()
        self.view.setModel(self.model)
        self.rows = SharedSelection(session, self.view, self.model)
        self.field = QLineEdit(placeholderText=tr("Filter by name, operation or path"))
        self.field.setAccessibleName(tr("Filter of the outline"))
        self.field.installEventFilter(self)
        self.empty = empty_state(EMPTY)
        self.shapes = Check()
        self._loader = LatestTask(self, lambda done: self._show_contents(done.result()))
        self._build()
        self._connect()
        self._reload()

    def _build(self) -> None:
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
        session.opened.connect(self._on_opened)
        session.changed.connect(self._on_changed)
        self.field.textChanged.connect(self._filter)
        self.shapes.edited.connect(self._reload)
        self.model.many_changed.connect(view.viewport().update)
        view.activated_row.connect(self._on_activated)
        view.expanded.connect(lambda index: self._on_expanded(index, True))
        view.collapsed.connect(lambda index: self._on_expanded(index, False))
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._menu)

    # -- open groups, shared with the canvas

    def follow(self, canvas: GraphCanvas) -> None:
        """Keep the same groups open here and on the canvas."""
        self._canvas_open = lambda: canvas.open_groups
        canvas.open_changed.connect(self.show_open)
        self.open_wanted.connect(canvas.set_open)
        self.all_wanted.connect(canvas.set_all_open)

    def show_open(self, paths: frozenset[str]) -> None:
        """Open these groups and close all others; with a filter set, after it is cleared."""
        self._open = set(paths)
        if self.field.text().strip() or self.model.tree is None:
            return
        changed = [(i, p) for p in self._expanded ^ self._open if (i := self.model.group_item(p)) is not None]
        if not changed:
            return
        if len(changed) > 1:  # one layout for all changes
            self.view.scheduleDelayedItemsLayout()
        with self.rows.quiet():
            for item, path in changed:
                self.view.setExpanded(self.model.index_of(item), path in self._open)
        self.rows.show_later()

    # -- content

    def _on_opened(self) -> None:
        self._open, self._fresh = set(), True
        self.field.clear()
        self._show_contents(None)  # drop the rows of the previous model
        self._reload()

    def _reload(self) -> None:
        """Rebuild the rows; for a large graph, in a thread."""
        document = self._session.document
        self._loader.drop()
        if document is None:
            self._show_contents(None)
        elif len(document.graph) <= SYNCHRONOUS:
            self._show_contents(contents(document.graph, self.shapes.get()))
        else:
            self._loader.ask(contents, document.graph, self.shapes.get())

    def _show_contents(self, content: Contents | None) -> None:
        with self.rows.quiet():
            self.model.take(content)
        if self._fresh and self.model.tree:
            self._fresh = False
            self._open = set(self._canvas_open() or default_open(self.model.tree, OPEN_ROWS))
        hidden = self.model.hidden
        self.shapes.setText(tr("Show {}", plural(hidden, "shape operation")) if hidden else tr("Show shape operations"))
        self.shapes.setVisible(bool(hidden) or self.shapes.get())
        self._filter(self.field.text())

    def _on_changed(self, change: Change) -> None:
        delta = change.delta
        reload = self._loader.busy or delta.added or delta.removed
        if reload or not self.model.update(change.after.graph, delta.changed):
            self._reload()

    def _filter(self, text: str) -> None:
        with self.rows.quiet():
            matches = self.model.filter(text)
        self._expanded.clear()
        self._expand(text, matches)
        document = self._session.document
        nothing = bool(text.strip()) and not matches
        self.empty.setText(tr("No node matches “{}”.", text.strip()) if nothing else EMPTY)
        self.empty.setVisible(nothing or document is None)
        self.view.setVisible(not nothing and document is not None)
        self.field.setVisible(document is not None)
        self.rows.show(self._session.selection)

    def _expand(self, text: str, matches: int) -> None:
        everything = bool(text.strip()) and matches <= OPEN_MATCHES
        with self.rows.quiet():
            for item in self.model.group_items():
                if everything or self.model.group_path(item) in self._open:
                    self.view.setExpanded(self.model.index_of(item), True)

    def _on_expanded(self, index: QModelIndex, opened: bool) -> None:
        """Record an expanded or collapsed group, and request the same of the canvas if the user did it."""
        item = index.internalId()
        if not self.model.is_group(item):
            return
        path = self.model.group_path(item)
        self._expanded.add(path) if opened else self._expanded.discard(path)
        if not self.rows.busy and not self.field.text().strip():
            self._open.add(path) if opened else self._open.discard(path)
            self.open_wanted.emit(path, opened)
            if opened:
                self.rows.show_later()

    # -- menu and keys

    def _on_activated(self, index: QModelIndex) -> None:
        item = index.internalId()
        if self.model.is_group(item):
            self.view.setExpanded(index, not self.view.isExpanded(index))
        else:
            self.reveal.emit(self.model.nodes_of(item)[0])

    def _menu(self, at: QPoint) -> None:
        index = self.view.indexAt(at)
        menu = QMenu(self)
        if index.isValid():
            nodes = self.model.nodes_of(index.internalId())
            menu.addAction(tr("Show on canvas"), lambda: self.reveal.emit(nodes[0]))
            menu.addAction(tr("Select all of this kind"), lambda: self.select_kind(nodes[0]))
            menu.addAction(tr("Copy path"), lambda: QGuiApplication.clipboard().setText(self._path_text(index)))
            menu.addSeparator()
        menu.addAction(tr("Expand all"), lambda: self.set_all_open(True))
        menu.addAction(tr("Collapse all"), lambda: self.set_all_open(False))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.view.viewport().mapToGlobal(at))

    def set_all_open(self, opened: bool) -> None:
        """Open or close every group, here and on the canvas; also while the rows are still being built."""
        self._fresh = False
        with self.rows.quiet():
            self.view.expandAll() if opened else self.view.collapseAll()
        if not self.field.text().strip():
            self._open = {self.model.group_path(i) for i in self.model.group_items()} if opened else set()
            self.all_wanted.emit(opened)

    def _path_text(self, index: QModelIndex) -> str:
        item = index.internalId()
        return self.model.group_path(item) if self.model.is_group(item) else self.model.nodes_of(item)[0]

    def select_kind(self, node: str) -> None:
        """Select every node with the same operation."""
        if self._session.document and node in (graph := self._session.document.graph).nodes:
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
