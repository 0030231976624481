"""How Search and Sweeps stand: a form with its foot at the left, what came of it at the right, or words that invite."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QSplitter, QStackedWidget, QVBoxLayout, QWidget

NARROWEST, WIDEST = 250, 460  # pixels of the form


class FormArea(QScrollArea):
    """Scrolls up and down alone: it is as wide as what is in it needs, also when a fold is opened there."""

    def __init__(self, inside: QWidget | None = None) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        if inside is not None:
            self.hold(inside)

    def hold(self, inside: QWidget) -> None:
        """Scroll this."""
        inside.setProperty("surface", "panel")
        inside.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWidget(inside)
        inside.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest and self.minimumWidth() != self._need():
            self.setMinimumWidth(self._need())
        return super().eventFilter(watched, event)

    def _need(self) -> int:
        held, bar = self.widget(), self.verticalScrollBar().sizeHint().width()
        return min(max((held.minimumSizeHint().width() if held else 0) + bar, NARROWEST), WIDEST)


class Front(QStackedWidget):
    """Pages of which the one in front alone asks for room: what nobody sees keeps nothing from being made lower."""

    def __init__(self) -> None:
        super().__init__()
        self.currentChanged.connect(lambda _: self.updateGeometry())

    def minimumSizeHint(self) -> QSize:
        page = self.currentWidget()
        return QSize(super().minimumSizeHint().width(), page.minimumSizeHint().height() if page else 0)


class Bench(QWidget):
    """Pages: 0 invites, 1 has the form and what came of it. `filled`: page 1 came to the front."""

    filled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pages = Front()
        self._pages.currentChanged.connect(lambda page: page and self.filled.emit())
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.split.setHandleWidth(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self._pages)

    @property
    def inviting(self) -> bool:
        """Whether there is nothing but words that invite, which need little room."""
        return self._pages.currentIndex() == 0

    def _lay_out(self, invitation: QWidget, form: QWidget, foot: QWidget, shown: QWidget, widths: list[int]) -> None:
        """`widths`: of the form and of what came of it, in pixels; the form keeps its own."""
        # From the outside in: a widget that comes into another takes its style anew, with all that is in it already.
        self._pages.addWidget(invitation)
        self._pages.addWidget(self.split)
        left = QWidget()
        for part in (left, shown):
            self.split.addWidget(part)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        area = FormArea()
        column.addWidget(area, 1)
        column.addWidget(foot)
        area.hold(form)
        self.split.setStretchFactor(1, 1)
        self.split.setSizes(widths)


def invitation(width: int, *parts: QWidget) -> QWidget:
    """Words and links in the middle of a page; words take `width` pixels."""
    page = QWidget()
    box = QVBoxLayout(page)
    box.addStretch(1)
    for part in parts:
        if isinstance(part, QLabel):
            part.setAlignment(Qt.AlignmentFlag.AlignCenter)
            part.setFixedWidth(width)
            part.setMinimumHeight(part.heightForWidth(width))
        box.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
    box.addStretch(1)
    return page


BEFORE = "height_before"  # under which a window keeps how high its panel was before it was made large
