"""Selection shared by the outline and the canvas: rows in the outline, node ids in the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QItemSelectionRange, QModelIndex, QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication

from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.features.outline.model import OutlineModel
from espalier.app.features.outline.view import OutlineTree

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MANY_ROWS = 1000  # larger selections are painted without Qt's selection model
Select = QItemSelectionModel.SelectionFlag


class SharedSelection(QObject):
    """Synchronizes rows and session in both directions; `busy` while the program itself changes the rows."""

    def __init__(self, session: Session, view: OutlineTree, model: OutlineModel) -> None:
        super().__init__(view)
        self._session, self._view, self._model = session, view, model
        self.busy = False
        self._later = QTimer(self, interval=0, singleShot=True)
        self._later.timeout.connect(self._show_again)
        session.selection_changed.connect(self.show)
        view.selectionModel().selectionChanged.connect(self._rows_selected)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Mark changes of the rows as not made by the user."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def show(self, ids: tuple[str, ...]) -> None:
        """Select the rows of the given nodes; rows inside collapsed groups are selected when the groups expand."""
        if self.busy:
            return
        model, view = self._model, self._view
        view.marked = frozenset()
        group = common_group(model.tree, ids) if model.tree else None
        if group is None and len(ids) > MANY_ROWS:
            self._mark(ids)
            return
        item = model.group_item(group) if group is not None else None
        items = [item] if item is not None else [i for n in ids if (i := model.item_of(n)) is not None]
        rows = items if len(items) <= 1 else [i for i in items if self._in_view(i)]
        with self.quiet():
            view.selectionModel().select(_ranges([model.index_of(i) for i in rows]), Select.ClearAndSelect)
            if rows:
                first = model.index_of(rows[0])
                view.selectionModel().setCurrentIndex(first, Select.NoUpdate)
                view.scrollTo(first)

    def show_later(self) -> None:
        """Select the rows that a group has just revealed."""
        if len(self._session.selection) > 1:
            self._later.start()

    def _show_again(self) -> None:
        position = self._view.verticalScrollBar().value()
        self.show(self._session.selection)
        self._view.verticalScrollBar().setValue(position)

    def _mark(self, ids: tuple[str, ...]) -> None:
        """Paint a selection too large for Qt, whose cost is quadratic in the number of ranges."""
        with self.quiet():
            self._view.clearSelection()
        self._view.marked = frozenset(i for n in ids if (i := self._model.item_of(n)) is not None)
        self._view.viewport().update()

    def _in_view(self, item: int) -> bool:
        """Whether all ancestors of a row are expanded."""
        index = self._model.index_of(item).parent()
        while index.isValid():
            if not self._view.isExpanded(index):
                return False
            index = index.parent()
        return True

    def _rows_selected(self, selected: QItemSelection, deselected: QItemSelection) -> None:
        if self.busy:
            return
        if QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
            removed = self._nodes_of(deselected.indexes())
            chosen = {n: None for n in self._session.selection if n not in removed} | self._nodes_of(selected.indexes())
        else:
            chosen = self._nodes_of(self._view.selectionModel().selectedIndexes())
        ids = tuple(chosen)
        with self.quiet():
            self._session.select(ids)
        self._view.marked = frozenset()
        if len(ids) > MANY_ROWS and self._model.tree and common_group(self._model.tree, ids) is None:
            self._mark(ids)

    def _nodes_of(self, rows: list[QModelIndex]) -> dict[str, None]:
        return dict.fromkeys(n for row in rows for n in self._model.nodes_of(row.internalId()))


def common_group(tree: Hierarchy, ids: tuple[str, ...]) -> str | None:
    """The path of the group that contains exactly these nodes, if any."""
    if len(ids) < 2 or ids[0] not in tree.index:
        return None
    selected = set(ids)
    for group in reversed(tree.ancestors(max(tree.home[tree.index[ids[0]]], 0))):
        if tree.groups[group].size >= len(selected):
            same = tree.groups[group].size == len(selected)
            members = {tree.ids[i] for i in tree.members(group)} if same else set()
            return tree.groups[group].path if members == selected else None
    return None


def _ranges(rows: list[QModelIndex]) -> QItemSelection:
    """A selection of rows with adjacent rows merged into ranges."""
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
