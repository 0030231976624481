"""The window's edges: the name and title in the menu bar, the toolbar, the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenuBar,
    QPushButton,
    QSizePolicy,
    QStatusBar,
    QToolBar,
    QToolButton,
    QWidget,
)

from espalier.app.features.score.panel import ScorePanel
from espalier.app.shell.palette import FindField
from espalier.app.widgets.heading import muted

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.menus import Menus

JOB_SHARE, AROUND = 0.28, 30  # of the status line that what runs may take from the figures; pixels round its words
EDGE, SPACE, BAR = 8, 6, 2  # right of what runs, before it, and what Qt keeps at the bar's left
TOOLS = ("open", "save", "|", "undo", "redo", "|", "evaluate", "Model/Report", "prune", "quantise")


def brand() -> QLabel:
    """The program's name before the menus."""
    label = QLabel("Espalier", margin=4)
    label.setProperty("role", "strong")
    label.setContentsMargins(10, 0, 6, 0)
    return label


class MenuRow(QWidget):
    """The program's name, the menus, and the document's name."""

    def __init__(self, menus: QMenuBar, title: QLabel) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(brand())
        row.addWidget(menus, 1)
        row.addWidget(title)


class TitleLabel(QLabel):
    """The document's name at the right of the menu bar."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "muted")
        self.setContentsMargins(0, 0, 14, 0)

    def tell(self, name: str, dirty: bool) -> None:
        """Show a name, with a star while something is unsaved."""
        head, dash, tail = name.partition(" — ")
        self.setText(f"{head}{'*' if dirty else ''}{dash}{tail}")


def toolbar(actions: Menus, find: FindField) -> QToolBar:
    """One row of words, and the find field at its end."""
    bar = QToolBar("Tools")
    bar.setObjectName("tools")
    bar.setMovable(False)
    bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
    bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
    bar.toggleViewAction().setVisible(False)
    for name in TOOLS:
        if name == "|":
            bar.addSeparator()
        elif name in actions.menus:
            bar.addWidget(_menu_button(actions, name))
        else:
            actions.put(bar, name)
    space = QWidget()
    space.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    bar.addWidget(space)
    bar.addWidget(find)
    return bar


def _menu_button(actions: Menus, name: str) -> QToolButton:
    button = QToolButton()
    button.setText(f"{name.rpartition('/')[2]} ▾")
    button.setMenu(actions.menus[name])
    button.setObjectName(name)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    shown = actions.menus[name].menuAction()
    shown.changed.connect(lambda: button.setEnabled(shown.isEnabled()))
    button.setEnabled(shown.isEnabled())
    button.setStyleSheet("QToolButton::menu-indicator { image: none; }")
    return button


class StatusLine(QStatusBar):
    """The score at the left, what runs at the right."""

    pressed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setSizeGripEnabled(False)
        self.score = ScorePanel(session)
        self._nothing = muted("No model is open", wrap=False)
        self._nothing.setContentsMargins(12, 0, 0, 0)
        self._job = QPushButton()
        self._job.setObjectName("job")
        self._job.setProperty("flat", True)
        self._job.setAccessibleName("What runs now")
        self._job.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._job.clicked.connect(self.pressed)
        self._text, self._need = "", 0
        host = QWidget()
        row = QHBoxLayout(host)
        row.setContentsMargins(0, 0, EDGE, 0)
        row.setSpacing(SPACE)
        row.addWidget(self._nothing)
        row.addWidget(self.score, 1)
        row.addWidget(self._job)
        self.addWidget(host, 1)
        self.setMinimumHeight(46)
        session.opened.connect(lambda: self._place(session.document is not None))
        self._place(session.document is not None)
        self.tell("")

    def _place(self, held: bool) -> None:
        self.score.setVisible(held)
        self._nothing.setVisible(not held)

    def tell(self, text: str) -> None:
        """Say what runs; nothing when nothing does."""
        self._text = text
        self._elide()

    def _elide(self) -> None:
        """As wide as the words are, up to a part of the line and what the figures leave free of the rest."""
        metrics = self._job.fontMetrics()
        need = metrics.horizontalAdvance(self._text) + AROUND
        self._need = max(self._need, need) if self._text else 0  # while it runs the figures stay where they are
        share = int(JOB_SHARE * self.width())
        wide = min(self._need, share + self._spare(self.width() - share - EDGE - SPACE - BAR))
        self._job.setFixedWidth(wide)
        # Widths are rounded: words that just fit are not asked for again, else they lose their end.
        cut = "" if wide >= need else metrics.elidedText(self._text, Qt.TextElideMode.ElideRight, wide - AROUND)
        self._job.setText(cut or self._text)
        self._job.setToolTip(self._text)
        self._job.setVisible(bool(self._text))

    def _spare(self, wide: int) -> int:
        """What of the width beside the words is not used."""
        if self.score.isHidden():
            return max(0, wide - self._nothing.sizeHint().width())
        return self.score.spare(wide)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def sizeHint(self) -> QSize:
        return QSize(200, 46)
