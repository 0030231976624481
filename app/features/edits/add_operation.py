"""A small search field at the pointer that inserts an operation on an edge or behind a node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout

from espalier.app.features.edits import actions
from espalier.app.features.edits.edge_menu import direct_user, edge_refusal
from espalier.app.features.edits.insertable import Operation, matching, operations_after, refusal
from espalier.app.features.edits.offers import Offer
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided
from espalier.app.widgets.title_rows import DETAIL, TitleAndDetail

if TYPE_CHECKING:
    from espalier.app.canvas.wires import Edge
    from espalier.app.host import Host
    from espalier.model.graph.graph import Graph

WIDTH, ROWS, ROW_HEIGHT = 340, 11, 24  # pixels
OFFER = Qt.ItemDataRole.UserRole + 1
NO_TARGET = tr("Add operation needs an edge or a node.")


class OperationField(QFrame):
    """Enter inserts the chosen operation, Escape or a click elsewhere closes."""

    def __init__(self, host: Host, graph: Graph, node: str, user: str, spot: QPoint) -> None:
        super().__init__(host.canvas)
        self._host, self._node, self._user = host, node, user
        self._offers = operations_after(graph, node)
        self.setProperty("popup", True)
        self.setAutoFillBackground(True)
        self.setAccessibleName(tr("Add operation"))
        title = Elided(tr("On the edge {} → {}", node, user) if user else tr("After {}", node), "muted")
        self.field = QLineEdit(placeholderText=tr("Find an operation"))
        self.field.setAccessibleName(tr("Find an operation"))
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setUniformItemSizes(True)
        self.list.setItemDelegate(TitleAndDetail(self.list, ROW_HEIGHT))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.none = QLabel(tr("No such operation."), margin=4)
        self.none.setProperty("role", "muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(4)
        for part in (title, self.field, self.list, self.none):
            column.addWidget(part)
        self.field.textChanged.connect(self._fill)
        self.field.installEventFilter(self)
        self.list.itemClicked.connect(self._insert)
        self._fill("")
        self._place(spot)
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)
        QApplication.instance().focusChanged.connect(self._focus_moved)  # type: ignore[union-attr]

    def _place(self, spot: QPoint) -> None:
        """With its corner at the pointer, as far as the canvas has room."""
        canvas = self._host.canvas
        self.resize(min(WIDTH, canvas.width()), self.sizeHint().height())
        self.move(max(0, min(spot.x(), canvas.width() - self.width())),
                  max(0, min(spot.y(), canvas.height() - self.height())))  # fmt: skip

    def _fill(self, text: str) -> None:
        found = matching(self._offers, text)
        self.list.clear()
        for operation, offer in found:
            self.list.addItem(self._row(operation, offer))
        self.list.setFixedHeight(ROW_HEIGHT * min(max(len(self._offers), 1), ROWS) + 4)
        self.list.setVisible(bool(found))
        self.none.setVisible(not found)
        if found and not found[0][1].reason:
            self.list.setCurrentRow(0)

    def _row(self, operation: Operation, offer: Offer) -> QListWidgetItem:
        row = QListWidgetItem(offer.title)
        row.setData(OFFER, offer)
        row.setData(DETAIL, offer.reason or operation.family)
        if offer.reason:
            row.setFlags(Qt.ItemFlag.NoItemFlags)
            row.setToolTip(f"{offer.title}: {offer.reason}.")
        return row

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keys of the field that are of the list."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return False
        match event.key():
            case Qt.Key.Key_Down | Qt.Key.Key_Up:
                self._step(1 if event.key() == Qt.Key.Key_Down else -1)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._insert(self.list.currentItem())
            case Qt.Key.Key_Escape:
                self.end()
            case _:
                return False
        return True

    def _step(self, by: int) -> None:
        """Go to the next possible row, round the ends."""
        rows = [k for k in range(self.list.count()) if self.list.item(k).flags() & Qt.ItemFlag.ItemIsEnabled]
        if rows:
            at = rows.index(self.list.currentRow()) if self.list.currentRow() in rows else -1
            self.list.setCurrentRow(rows[(at + by) % len(rows)])

    def _insert(self, row: QListWidgetItem | None) -> None:
        offer = row.data(OFFER) if row is not None else None
        if offer is None or offer.reason:
            return
        self.end()
        actions.apply(self._host, replace(offer.edit, user=self._user), (self._node,))

    def _focus_moved(self, _: object, now: object) -> None:
        if now is not self.field and QApplication.activeWindow() is self.window():
            self.end()

    def end(self) -> None:
        """Close, and give the canvas the focus."""
        if self.isHidden():
            return
        QApplication.instance().focusChanged.disconnect(self._focus_moved)  # type: ignore[union-attr]
        had = self.field.hasFocus()
        self.hide()
        self.deleteLater()
        if had:
            self._host.canvas.setFocus(Qt.FocusReason.OtherFocusReason)


def connect(host: Host) -> None:
    """Follow the canvas: Shift+A, and a double click on an edge."""
    host.canvas.operation_wanted.connect(partial(add_operation, host))


def add_operation(host: Host, edge: Edge | None = None, spot: QPoint | None = None) -> OperationField | None:
    """Open the field for an edge, else for the last selected node, else for the one at a pixel.

    A message says where nothing can be inserted.
    """
    document, canvas = host.session.document, host.canvas
    if document is None:
        return None
    graph, chosen = document.graph, host.session.selection
    pointed = canvas.node_under(QPointF(spot)) if spot is not None else None
    node = edge.source if edge is not None else chosen[-1] if chosen else pointed
    if node is None:
        host.banner.show_message(NO_TARGET, tr("Point at an edge or a node, or select a node."))
        return None
    reason = edge_refusal(graph, edge) if edge is not None else refusal(graph, node)
    if reason:
        host.banner.show_message(reason)
        return None
    if spot is None:
        spot = canvas.pointer()
    return OperationField(host, graph, node, direct_user(graph, edge) if edge is not None else "", spot)
