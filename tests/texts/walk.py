"""Collects every text that a widget shows: of itself, its items, headers, tabs and menus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QGroupBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QWidget,
)

FEW = 200  # rows of a table that are read
TAG = re.compile(r"<[^>]*>|&\w+;")


class Shown(NamedTuple):
    """A text, what of a widget it is, and the widget's class."""

    text: str
    part: str
    widget: str


def shown(root: QWidget) -> Iterator[Shown]:
    """Every text of a widget and of all below it, hidden ones too."""
    for widget in (root, *root.findChildren(QWidget)):
        kind = type(widget).__name__
        for part, text in _texts(widget):
            plain = TAG.sub(" ", text)
            if plain.strip():
                yield Shown(plain.strip(), part, kind)


def _texts(widget: QWidget) -> Iterator[tuple[str, str]]:
    yield "tool tip", widget.toolTip()
    yield "accessible name", widget.accessibleName()
    yield "accessible description", widget.accessibleDescription()
    yield "title", widget.windowTitle()
    for action in widget.actions():
        yield from _of_action(action)
    match widget:
        case QLabel() | QAbstractButton():
            yield "text", widget.text()
        case QLineEdit() | QPlainTextEdit() | QTextEdit():
            yield "placeholder", widget.placeholderText()
        case QComboBox():
            yield "placeholder", widget.placeholderText()
            yield from (("item", widget.itemText(i)) for i in range(widget.count()))
        case QTabBar():
            yield from (("tab", widget.tabText(i)) for i in range(widget.count()))
            yield from (("tool tip", widget.tabToolTip(i)) for i in range(widget.count()))
        case QHeaderView():
            yield from _of_header(widget)
        case QGroupBox():
            yield "title", widget.title()
        case QMenu():
            yield "title", widget.title()
        case QAbstractItemView():
            yield from _of_tips(widget)
            yield from _of_cells(widget)
        case _:
            return


def _of_action(action: QAction) -> Iterator[tuple[str, str]]:
    yield "action", action.text().replace("\t", " ")
    yield "tool tip", action.toolTip()
    yield "short title", action.iconText()


def _of_header(header: QHeaderView) -> Iterator[tuple[str, str]]:
    model, way = header.model(), header.orientation()
    for i in range(header.count() if model is not None and way == Qt.Orientation.Horizontal else 0):
        for part, role in (("column", Qt.ItemDataRole.DisplayRole), ("tool tip", Qt.ItemDataRole.ToolTipRole)):
            yield part, str(model.headerData(i, way, role) or "")


def _of_tips(view: QAbstractItemView) -> Iterator[tuple[str, str]]:
    """The tool tips of the first rows; cells themselves are data."""
    model: QAbstractItemModel | None = view.model()
    if model is None:
        return
    for row in range(min(model.rowCount(QModelIndex()), 3)):
        columns = 1 if isinstance(model, QAbstractListModel) else min(model.columnCount(QModelIndex()), 12)
        for column in range(columns):
            yield "tool tip", str(model.index(row, column).data(Qt.ItemDataRole.ToolTipRole) or "")


def _of_cells(view: QAbstractItemView) -> Iterator[tuple[str, str]]:
    """The texts of cells of a report's table, without numbers."""
    from espalier.app.widgets.table import Table  # translated as it is imported

    if isinstance(view, Table):
        for at, row in enumerate(view.rows.shown[:FEW]):
            for place, column in enumerate(view.rows.columns):
                if isinstance(row.get(column), str):
                    yield f"cell of {column}", str(view.rows.index(at, place).data())
