"""The tour: five steps that point at parts of the window. Nothing waits for it, and it can be closed at any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.heading import link

if TYPE_CHECKING:
    from espalier.app.host import Host

WIDTH, GAP, EDGE = 340, 12, 8  # pixels
MODEL = "demo:digits"  # opened where no model is


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its title, its text, and the part of the window that it points at."""

    title: str
    text: str
    part: str


STEPS = (
    Step(
        tr("The graph"),
        tr(
            "Each card is an operation of the model. Select one, or several with Ctrl. A right click lists "
            "what can be done with it."
        ),
        "graph",
    ),
    Step(
        tr("The inspector"),
        tr(
            "Choose the number format of a weight or an input, and how much to prune. Each choice is a "
            "step of the recipe; Ctrl+Z takes it back."
        ),
        "inspector",
    ),
    Step(
        tr("The score"),
        tr("Size, bits, operations and accuracy, with the change from the model as opened. They follow each edit."),
        "score",
    ),
    Step(
        tr("Workspaces"),
        tr(
            "Compress finds formats under a budget. Experiments searches and trains. Hardware writes "
            "SystemVerilog and simulates it."
        ),
        "workspaces",
    ),
    Step(
        tr("Find anything"),
        tr(
            "Type a node, a command, or “what is mxint4”. Shift+F1 explains what is under the pointer, "
            "F1 opens the guide."
        ),
        "find",
    ),
)


class Bubble(QFrame):
    """The text of a step, on top of the window; it takes no events beside its own area."""

    def __init__(self, window: QWidget, back: Callable[[], object], on: Callable[[], object],
                 end: Callable[[], object]) -> None:  # fmt: skip
        super().__init__(window)
        self.setProperty("popup", True)
        self.setFixedWidth(WIDTH)
        self.setAccessibleName(tr("Tour"))
        self.title, self.text, self.count = QLabel(), QLabel(), QLabel()
        self.title.setProperty("role", "strong")
        self.count.setProperty("role", "muted")
        self.text.setWordWrap(True)
        self.back, self.next, self.close_link = link(tr("Back"), back), link(tr("Next"), on), link(tr("Close"), end)
        box, row = QVBoxLayout(self), QHBoxLayout()
        box.setContentsMargins(14, 10, 14, 8)
        box.addWidget(self.title)
        box.addWidget(self.text)
        row.addWidget(self.count, 1)
        for button in (self.back, self.next, self.close_link):
            row.addWidget(button)
        box.addLayout(row)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        escape.activated.connect(end)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return presses the button with the focus; outside of a dialog Qt leaves that to Space."""
        focus = self.focusWidget()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and isinstance(focus, QAbstractButton):
            focus.click()
        else:
            super().keyPressEvent(event)

    def fit(self) -> None:
        """Take the height that the text needs at this width; a hint of a hidden widget does not know it."""
        if (box := self.layout()) is not None:
            box.activate()
            self.resize(WIDTH, box.totalHeightForWidth(WIDTH))


class Tour(QObject):
    """Shows the steps. `part`: the widget of a part of the window by its name in STEPS."""

    def __init__(self, window: QWidget, host: Host, part: Callable[[str], QWidget]) -> None:
        super().__init__(window)
        self._window, self._host, self._part = window, host, part
        self.index = -1  # of the step that is shown; -1: none
        self._waits = False  # for the model that it opens
        self.bubble: Bubble | None = None
        self.frame: QFrame | None = None
        host.session.opened.connect(self._opened)

    def offer(self) -> None:
        """Offer the tour in the banner."""
        self._host.banner.show_message(
            tr("New here? The tour shows the window in five steps."),
            tr("It is in the menu Help, too."),
            [(tr("Take the tour"), self.start)],
        )

    def start(self) -> None:
        """Begin with the first step; opens a demo first where no model is open."""
        if self._host.session.document is None:
            self._waits = True
            self._host.open_spec(MODEL)
        else:
            self.show_step(0)

    def _opened(self) -> None:
        waits, self._waits = self._waits, False
        if self._host.session.document is None:
            self.end()
        elif waits:
            self.show_step(0)

    def show_step(self, index: int) -> None:
        """Show a step; behind the last one, the tour ends."""
        if index >= len(STEPS):
            self.end()
            return
        if self.bubble is None:
            self.bubble = Bubble(self._window, lambda: self.show_step(self.index - 1),
                                 lambda: self.show_step(self.index + 1), self.end)  # fmt: skip
            self.frame = QFrame(self._window)
            self.frame.setObjectName("tour_frame")
            self.frame.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            self._window.installEventFilter(self)
        self.index, step, bubble = index, STEPS[index], self.bubble
        bubble.title.setText(step.title)
        bubble.text.setText(step.text)
        bubble.count.setText(tr("{} of {}", index + 1, len(STEPS)))
        bubble.back.setEnabled(index > 0)
        bubble.next.setText(tr("Next") if index + 1 < len(STEPS) else tr("Done"))
        if step.part in ("graph", "inspector"):
            self._host.show_dock("inspector")
        self._place()
        bubble.next.setFocus()

    def _visible_part(self) -> QWidget:
        """The part of the present step; where a narrow window hides it, what it lies in."""
        widget = self._part(STEPS[self.index].part)
        while not widget.isVisible() and (parent := widget.parentWidget()) is not None:
            widget = parent
        return widget

    def _place(self) -> None:
        """Frame the part, and put the text beside it, wholly inside the window."""
        if self.bubble is None or self.frame is None:
            return
        widget, bubble, whole = self._visible_part(), self.bubble, self._window.rect()
        corner = self._window.mapFromGlobal(widget.mapToGlobal(QPoint()))  # a floating panel is a window of its own
        area = QRect(corner, widget.size()).intersected(whole)
        bubble.fit()
        self.frame.setGeometry(area)
        room = whole.adjusted(EDGE, EDGE, -EDGE, -EDGE)
        x = max(room.left(), min(area.left(), room.right() - bubble.width()))
        y = max(room.top(), min(area.top(), room.bottom() - bubble.height()))
        places = (
            QPoint(area.left() - bubble.width() - GAP, y), QPoint(area.right() + GAP, y),
            QPoint(x, area.bottom() + GAP), QPoint(x, area.top() - bubble.height() - GAP),
        )  # fmt: skip
        bubble.move(next((p for p in places if room.contains(QRect(p, bubble.size()))), QPoint(x, y)))
        for part in (self.frame, bubble):
            part.show()
            part.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the size of the window, and find the parts anew when its tab comes to the front."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
            self._place()
        return False

    def end(self) -> None:
        """Take the tour away."""
        self.index = -1
        self._window.removeEventFilter(self)
        for part in (self.bubble, self.frame):
            if part is not None:
                part.hide()
                part.deleteLater()
        self.bubble = self.frame = None
