"""A panel with a form at the left and its results at the right, or an introduction while it is empty."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QLabel, QScrollArea, QSplitter, QStackedWidget, QVBoxLayout, QWidget

MIN_WIDTH, MAX_WIDTH = 250, 460  # of the form, in pixels


class FormArea(QScrollArea):
    """A vertical scroll area as wide as its content needs, also after a collapsible section was opened."""

    def __init__(self, content: QWidget | None = None) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        if content is not None:
            self.set_content(content)

    def set_content(self, content: QWidget) -> None:
        """Set the scrolled widget."""
        content.setProperty("surface", "panel")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWidget(content)
        content.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest and self.minimumWidth() != self._needed_width():
            self.setMinimumWidth(self._needed_width())
        return super().eventFilter(watched, event)

    def _needed_width(self) -> int:
        content, bar = self.widget(), self.verticalScrollBar().sizeHint().width()
        return min(max((content.minimumSizeHint().width() if content else 0) + bar, MIN_WIDTH), MAX_WIDTH)


class CurrentPageStack(QStackedWidget):
    """A stack whose minimum height is that of the current page only."""

    def __init__(self) -> None:
        super().__init__()
        self.currentChanged.connect(lambda _: self.updateGeometry())

    def minimumSizeHint(self) -> QSize:
        page = self.currentWidget()
        return QSize(super().minimumSizeHint().width(), page.minimumSizeHint().height() if page else 0)


class FormPanel(QWidget):
    """Page 0 is an introduction, page 1 has the form and the results."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pages = CurrentPageStack()
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.split.setHandleWidth(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self._pages)

    def _lay_out(
        self, introduction: QWidget, form: QWidget, foot: QWidget, results: QWidget, widths: list[int]
    ) -> None:
        """Lay out the panel; `foot` is fixed below the form. `widths`: of form and results, in pixels."""
        # From the outside in: a widget that gets a new parent is restyled with all its children.
        self._pages.addWidget(introduction)
        self._pages.addWidget(self.split)
        left = QWidget()
        for part in (left, results):
            self.split.addWidget(part)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        area = FormArea()
        column.addWidget(area, 1)
        column.addWidget(foot)
        area.set_content(form)
        self.split.setStretchFactor(1, 1)
        self.split.setSizes(widths)


def empty_page(width: int, *parts: QWidget) -> QWidget:
    """A page with centred labels, `width` pixels wide, and links."""
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
