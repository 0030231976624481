"""The selection that the outline shares with the canvas: rows on this side, ids of nodes on the other."""

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

MANY_ROWS = 1000  # selected, from which on the rows are marked without Qt's selection
Select = QItemSelectionModel.SelectionFlag


class SharedSelection(QObject):
    """Follows the session and is followed by it; `busy` while it or its owner changes the rows itself."""

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
        """What happens to the rows meanwhile is not the user's doing."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def show(self, ids: tuple[str, ...]) -> None:
        """Mark the rows of nodes selected elsewhere; those inside closed groups wait until these open."""
        if self.busy:
            return
        model, view = self._model, self._view
        view.marked = frozenset()
        group = common_group(model.tree, ids) if model.tree else None
        if group is None and len(ids) > MANY_ROWS:
            self._mark(ids)
            return
        item = model.group_item(group) if group is not None else None
        found = [item] if item is not None else [i for n in ids if (i := model.item_of(n)) is not None]
        rows = found if len(found) <= 1 else [i for i in found if self._in_view(i)]
        with self.quiet():
            view.selectionModel().select(_ranges([model.index_of(i) for i in rows]), Select.ClearAndSelect)
            if rows:
                first = model.index_of(rows[0])
                view.selectionModel().setCurrentIndex(first, Select.NoUpdate)
                view.scrollTo(first)

    def show_later(self) -> None:
        """More rows can be seen now: mark those that are selected."""
        if len(self._session.selection) > 1:
            self._later.start()

    def _show_again(self) -> None:
        place = self._view.verticalScrollBar().value()
        self.show(self._session.selection)
        self._view.verticalScrollBar().setValue(place)

    def _mark(self, ids: tuple[str, ...]) -> None:
        """Show a selection that is too large for Qt's own, whose price grows with the square of its ranges."""
        with self.quiet():
            self._view.clearSelection()
        self._view.marked = frozenset(i for n in ids if (i := self._model.item_of(n)) is not None)
        self._view.viewport().update()

    def _in_view(self, item: int) -> bool:
        """Whether all groups around a row are open."""
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
            gone = self._nodes_of(deselected.indexes())
            chosen = {n: None for n in self._session.selection if n not in gone} | self._nodes_of(selected.indexes())
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
    """The path of the group that consists of exactly these nodes."""
    if len(ids) < 2 or ids[0] not in tree.index:
        return None
    wanted = set(ids)
    for group in reversed(tree.ancestors(max(tree.home[tree.index[ids[0]]], 0))):
        if tree.groups[group].size >= len(wanted):
            same = tree.groups[group].size == len(wanted)
            members = {tree.ids[i] for i in tree.members(group)} if same else set()
            return tree.groups[group].path if members == wanted else None
    return None


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
