"""A row of widgets that wraps to further lines (the flow layout of Qt's examples)."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Places widgets at their preferred widths, wrapping; `spacing` and `between` (lines) in pixels."""

    _items: list[QLayoutItem] = []  # noqa: RUF012  # Qt may call once more while Python destroys the layout

    def __init__(self, parent: QWidget | None = None, spacing: int = 8, between: int = 4) -> None:
        super().__init__()
        self._items = []
        self._heights: dict[int, int] = {}  # by width, cached until `invalidate`: Qt asks often
        self._gap, self._between = spacing, between
        self.setContentsMargins(0, 0, 0, 0)
        if parent is not None:
            parent.setLayout(self)  # last: Qt asks for the items at once

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)
        self.invalidate()

    def invalidate(self) -> None:
        """Clear the cached heights."""
        self._heights.clear()
        super().invalidate()

    def count(self) -> int:
        """The number of items."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if not 0 <= index < len(self._items):
            return None
        item = self._items.pop(index)
        self.invalidate()
        return item

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = self._arrange(QRect(0, 0, width, 0), move=False)
        return self._heights[width]

    def minimumSize(self) -> QSize:
        """The size of the widest and of the highest item, as each can have its own line."""
        sizes = [i.minimumSize() for i in self._items if not i.isEmpty()]
        margins = self.contentsMargins()
        width, height = max((s.width() for s in sizes), default=0), max((s.height() for s in sizes), default=0)
        return QSize(width + margins.left() + margins.right(), height + margins.top() + margins.bottom())

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _lines(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        """The items of each line, with their sizes."""
        lines: list[list[tuple[QLayoutItem, QSize]]] = []
        remaining = 0
        for item in self._items:
            if item.isEmpty():
                continue
            size = item.sizeHint().expandedTo(item.minimumSize()).boundedTo(item.maximumSize())
            size.setWidth(min(size.width(), width))
            if not lines or remaining < size.width():
                lines.append([])
                remaining = width
            lines[-1].append((item, size))
            remaining -= size.width() + self._gap
        return lines

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        """Place the items within `rect`, vertically centred in their lines; returns the height in pixels."""
        margins = self.contentsMargins()
        inner = rect.marginsRemoved(margins)
        top = inner.top()
        for line in self._lines(inner.width()):
            high, left = max(size.height() for _, size in line), inner.left()
            for item, size in line:
                if move:
                    item.setGeometry(QRect(QPoint(left, top + (high - size.height()) // 2), size))
                left += size.width() + self._gap
            top += high + self._between
        used = top - inner.top() - (self._between if top > inner.top() else 0)
        return used + margins.top() + margins.bottom()
