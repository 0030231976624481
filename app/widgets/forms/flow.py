"""A row that goes on in the next line where the width does not hold all of it."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class Flow(QLayout):
    """Widgets beside each other at the widths that they ask for, in as many lines as that takes."""

    _items: list[QLayoutItem] = []  # noqa: RUF012  # Qt may ask once more while Python takes the layout apart

    def __init__(self, parent: QWidget | None = None, spacing: int = 8, between: int = 4) -> None:
        super().__init__()
        self._items = []
        self._heights: dict[int, int] = {}  # by width, until something changes: Qt asks again and again
        self._gap, self._between = spacing, between
        self.setContentsMargins(0, 0, 0, 0)
        if parent is not None:
            parent.setLayout(self)  # last: Qt asks for items at once

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)
        self.invalidate()

    def invalidate(self) -> None:
        """Something has another size."""
        self._heights.clear()
        super().invalidate()

    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if not 0 <= index < len(self._items):
            return None
        taken = self._items.pop(index)
        self.invalidate()
        return taken

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = self._arrange(QRect(0, 0, width, 0), move=False)
        return self._heights[width]

    def minimumSize(self) -> QSize:
        """The widest of them: beside each other they need not stand."""
        held = [i.minimumSize() for i in self._items if not i.isEmpty()]
        margins = self.contentsMargins()
        wide, high = max((s.width() for s in held), default=0), max((s.height() for s in held), default=0)
        return QSize(wide + margins.left() + margins.right(), high + margins.top() + margins.bottom())

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _lines(self, room: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        """What stands in which line, and how large."""
        lines: list[list[tuple[QLayoutItem, QSize]]] = []
        left = 0
        for item in self._items:
            if item.isEmpty():
                continue
            size = item.sizeHint().expandedTo(item.minimumSize()).boundedTo(item.maximumSize())
            size.setWidth(min(size.width(), room))
            if not lines or left < size.width():
                lines.append([])
                left = room
            lines[-1].append((item, size))
            left -= size.width() + self._gap
        return lines

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        """Place them within `rect`, in the middle of their lines; returns the height that they take."""
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
