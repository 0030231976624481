"""A splitter whose parts are side by side in a wide panel and one above the other in a narrow one."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

Direction = Qt.Orientation


class AdaptiveSplitter(QSplitter):
    """`wide`: pixels of width from which the parts are side by side; `shares`: of the parts, in either direction."""

    def __init__(self, wide: int, shares: Sequence[int], parent: QWidget | None = None) -> None:
        super().__init__(Direction.Vertical, parent)
        self._wide, self._shares = wide, tuple(shares)
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)

    def add(self, *parts: QWidget) -> None:
        """Add the parts, with their shares."""
        for number, part in enumerate(parts):
            self.addWidget(part)
            self.setStretchFactor(number, self._shares[number])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wanted = Direction.Horizontal if self.width() >= self._wide else Direction.Vertical
        if wanted != self.orientation():
            self.setOrientation(wanted)
            length = self.width() if wanted == Direction.Horizontal else self.height()
            self.setSizes([length * share // sum(self._shares) for share in self._shares])
