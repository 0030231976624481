"""The menu row, the toolbar and the status line of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
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
from espalier.app.shell.find_field import FindField
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted
from espalier.app.widgets.icons import tinted
from espalier.app.widgets.style import FADE, blend

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.menus import Menus
    from espalier.app.theme import Palette

JOB_SHARE = 0.2  # of the status line's width that is kept for the running job
# Pixels: around the text of the job, right of it, left of it, and Qt's own margin of the bar.
JOB_PADDING, EDGE, SPACE, BAR = 30, 8, 6, 2
TOOL_ICON, ICON_GAP = 16, 3  # pixels
TOOLS = ("open", "save", "|", "undo", "redo", "|", "evaluate", "Model/Report", "prune", "quantise", "|", "compare")


def brand() -> QLabel:
    """The name of the program, left of the menus."""
    label = QLabel("Espalier", margin=4)
    label.setProperty("role", "strong")
    label.setContentsMargins(10, 0, 6, 0)
    return label


class MenuRow(QWidget):
    """The name of the program, the menus and the name of the document."""

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
    """The name of the document at the right of the menu bar."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "muted")
        self.setContentsMargins(0, 0, 14, 0)

    def show_name(self, name: str, dirty: bool) -> None:
        """Show a name, with a star after the file name if the document is unsaved."""
        head, dash, tail = name.partition(" — ")
        self.setText(f"{head}{'*' if dirty else ''}{dash}{tail}")


class Tools(QToolBar):
    """The toolbar: buttons with icon and text, then the find field."""

    def __init__(self, actions: Menus, find: FindField) -> None:
        super().__init__(tr("Tools"))
        self.setObjectName("tools")
        self.setMovable(False)
        self.setIconSize(QSize(TOOL_ICON + 2 * ICON_GAP, TOOL_ICON))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.toggleViewAction().setVisible(False)
        self._buttons: dict[str, QAction | QToolButton] = {}  # by the name of the icon
        for name in TOOLS:
            if name == "|":
                self.addSeparator()
            elif name in actions.menus:
                self._buttons[name.rpartition("/")[2].lower()] = self._menu_button(actions, name)
            else:
                self._buttons[name] = actions.add_to_toolbar(self, name)
        spacer = QWidget()
        spacer.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(spacer)
        self.addWidget(find)

    def _menu_button(self, actions: Menus, name: str) -> QToolButton:
        button = QToolButton()
        button.setText(f"{tr(name.rpartition('/')[2])} ▾")
        button.setMenu(actions.menus[name])
        button.setObjectName(name)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        action = actions.menus[name].menuAction()
        action.changed.connect(lambda: button.setEnabled(action.isEnabled()))
        button.setEnabled(action.isEnabled())
        button.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self.addWidget(button)
        return button

    def set_palette(self, palette: Palette) -> None:
        """Draw the icons in the colours of a theme."""
        for name, button in self._buttons.items():
            button.setIcon(
                tinted(name, palette.text, palette.accent, TOOL_ICON, blend(palette.muted, palette.panel, FADE))
            )


class StatusLine(QStatusBar):
    """The score at the left, the running job at the right."""

    pressed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setSizeGripEnabled(False)
        self.score = ScorePanel(session)
        self._no_model = muted(tr("No model is open"), wrap=False)
        self._no_model.setContentsMargins(12, 0, 0, 0)
        self._job = QPushButton()
        self._job.setObjectName("job")
        self._job.setProperty("flat", True)
        self._job.setAccessibleName(tr("Running job"))
        self._job.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._job.clicked.connect(self.pressed)
        self._text = ""
        keeps = self._job.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        self._job.setSizePolicy(keeps)
        host = QWidget()
        row = QHBoxLayout(host)
        row.setContentsMargins(0, 0, EDGE, 0)
        row.setSpacing(SPACE)
        row.addWidget(self._no_model)
        row.addWidget(self.score, 1)
        row.addWidget(self._job)
        self.addWidget(host, 1)
        self.setMinimumHeight(46)
        session.opened.connect(lambda: self._show_score(session.document is not None))
        self._show_score(session.document is not None)
        self.show_job("")

    def _show_score(self, is_open: bool) -> None:
        self.score.setVisible(is_open)
        self._no_model.setVisible(not is_open)

    def show_job(self, text: str) -> None:
        """Show the text of the running job; empty hides it."""
        self._text = text
        self._elide()

    def _elide(self) -> None:
        """Give the job JOB_SHARE of the line, which stays free while none runs, plus what the score leaves free.

        The score is laid out without that share whether a job runs or not, so that no figure moves under the pointer.
        """
        metrics = self._job.fontMetrics()
        text_width = metrics.horizontalAdvance(self._text) + JOB_PADDING
        share = int(JOB_SHARE * self.width())
        width = min(max(share, text_width), share + self._free_width(self.width() - share - EDGE - SPACE - BAR))
        self._job.setFixedWidth(width)
        # A text that just fits is not elided: widths are rounded, and it would lose its end.
        fits = width >= text_width
        elided = metrics.elidedText(self._text, Qt.TextElideMode.ElideRight, width - JOB_PADDING)
        self._job.setText((self._text if fits else elided or self._text).replace("&", "&&"))
        self._job.setToolTip(self._text)
        self._job.setVisible(bool(self._text))

    def _free_width(self, width: int) -> int:
        """The part of `width` (pixels) that the score or the label does not use."""
        if self.score.isHidden():
            return max(0, width - self._no_model.sizeHint().width())
        return self.score.spare(width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def sizeHint(self) -> QSize:
        return QSize(200, 46)
