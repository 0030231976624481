"""The hands of a random user: by mouse and keys on the canvas and in panels."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QTabBar,
    QWidget,
)

from espalier.app.session.session import Session
from espalier.app.shell.tabs import Tabs
from espalier.app.shell.window import Window
from tests.attack.soak.inner import inner
from tests.attack.soak.watch import Watch

T = TypeVar("T")
Key, Button, NONE = Qt.Key, Qt.MouseButton, Qt.KeyboardModifier.NoModifier
WORDS = ("4", "8", "0.5", "abc", "-1", "1e9", "fc*", "", "0", "16", "linear", "2,3,4", "weight_bits<=4")
KEYS = (Key.Key_Up, Key.Key_Down, Key.Key_Left, Key.Key_Right, Key.Key_Home, Key.Key_End, Key.Key_Return, Key.Key_Tab,
        Key.Key_Space, Key.Key_Delete, Key.Key_PageDown, Key.Key_Plus, Key.Key_Minus, Key.Key_Escape, Key.Key_F2,
        Key.Key_A, Key.Key_E)  # fmt: skip


class Hands:
    """Mouse and keys; everything that is done comes from `drawn`."""

    def __init__(self, tabs: Tabs, watch: Watch, drawn: Random, folder: Path) -> None:
        self.tabs, self.watch, self.drawn, self.folder = tabs, watch, drawn, folder

    @property
    def window(self) -> Window:
        """The window of the tab in front."""
        return self.tabs.current

    @property
    def session(self) -> Session:
        """Its session."""
        return self.tabs.current.session

    def pick(self, of: Sequence[T]) -> T:
        """One of them."""
        return self.drawn.choice(of)

    def note(self, text: str) -> str:
        """What is done, in words, before it is: it may raise, or end the process."""
        sys.stderr.write(f"{self.watch.action} {text}\n")
        self.watch.trail[-1] = text
        return text

    # -- canvas

    def _place(self, widget: QWidget) -> QPoint:
        return QPoint(self.drawn.randrange(max(1, widget.width())), self.drawn.randrange(max(1, widget.height())))

    def click_canvas(self) -> str:
        canvas, at = self.window.canvas, self._place(self.window.canvas)
        keys = self.pick((NONE, NONE, Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier))
        what = self.note(
            self.pick(("click", "click", "click", "double click", "right click")) + f" canvas {at.x()} {at.y()}"
        )
        if what.startswith("double"):
            QTest.mouseDClick(canvas, Button.LeftButton, keys, at)
        else:
            QTest.mouseClick(canvas, Button.RightButton if what.startswith("right") else Button.LeftButton, keys, at)
        return what

    def wheel(self, on: QWidget | None = None) -> str:
        target = on or self.window.canvas
        at, turn = QPointF(self._place(target)), QPoint(0, self.pick((-240, -120, 120, 240)))
        keys = self.pick((NONE, Qt.KeyboardModifier.ControlModifier))
        event = QWheelEvent(at, QPointF(target.mapToGlobal(at.toPoint())), QPoint(), turn, Button.NoButton, keys,
                            Qt.ScrollPhase.NoScrollPhase, False)  # fmt: skip
        QApplication.sendEvent(target, event)
        return f"wheel {type(target).__name__}"

    def drag(self, on: QWidget | None = None) -> str:
        target = on or self.window.canvas
        button = self.pick((Button.LeftButton, Button.LeftButton, Button.MiddleButton))
        QTest.mousePress(target, button, NONE, self._place(target))
        for _ in range(3):
            QTest.mouseMove(target, self._place(target))
        QTest.mouseRelease(target, button, NONE, self._place(target))
        return f"drag {type(target).__name__}"

    def canvas_key(self) -> str:
        return self._key(self.window.canvas)

    def _key(self, widget: QWidget) -> str:
        key = self.pick(KEYS)
        keys = self.pick((NONE, NONE, NONE, Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier))
        what = self.note(f"key {key.name} in {type(widget).__name__}")
        widget.setFocus()
        QTest.keyClick(widget, key, keys)
        return what

    def select(self) -> str:
        if self.session.document is None:
            return ""
        nodes = list(self.session.document.graph.nodes)
        weighed = [n.id for n in self.session.document.graph if n.weights] or nodes
        chosen = self.drawn.sample(weighed, min(len(weighed), self.pick((1, 1, 1, 2, 5))))
        self.window.canvas.select(chosen if self.drawn.random() < 0.8 else [self.pick(nodes)], reveal=True)
        return f"select {chosen[:2]}"

    # -- panels

    def _inside(self, panel: QWidget) -> list[QWidget]:
        return [w for w in inner(panel, QWidget)
                if w.isEnabled() and w.width() > 3 and w.height() > 3
                and (w.focusPolicy() != Qt.FocusPolicy.NoFocus or isinstance(w, QAbstractButton))]  # fmt: skip

    def poke(self, panel: QWidget) -> str:
        """Use one of the fields, buttons, lists or charts of a panel."""
        inside = self._inside(panel)
        if not inside:
            return "nothing to use"
        widget = self.pick(inside)
        what = self.note(f"use {type(widget).__name__} {widget.accessibleName() or _words(widget)!r}")
        match widget:
            case QAbstractButton():
                QTest.mouseClick(widget, Button.LeftButton)
            case QComboBox():
                QTest.keyClick(widget, self.pick((Key.Key_Down, Key.Key_Up)))
            case QLineEdit() | QAbstractSpinBox():
                widget.setFocus()
                QTest.keySequence(widget, QKeySequence(QKeySequence.StandardKey.SelectAll))
                QTest.keyClicks(widget, self.pick(WORDS))
                QTest.keyClick(widget, self.pick((Key.Key_Return, Key.Key_Tab, Key.Key_Escape)))
            case _:
                self._poke_other(widget)
        return what

    def _poke_other(self, widget: QWidget) -> None:
        area = widget.viewport() if isinstance(widget, QAbstractItemView) else widget
        match self.drawn.randrange(6):
            case 0:
                self._key(widget)
            case 1:
                self.wheel(area)
            case 2:
                self.drag(area)
            case 3:
                QTest.mouseDClick(area, Button.LeftButton, NONE, self._place(area))
            case _:
                QTest.mouseMove(area, self._place(area))
                QTest.mouseClick(area, self.pick((Button.LeftButton, Button.LeftButton, Button.RightButton)), NONE,
                                 self._place(area))  # fmt: skip

    def poke_inspector(self) -> str:
        self.window.show_dock("inspector")
        return self.poke(self.window.docks.panels["inspector"])

    def poke_dock(self) -> str:
        shown = [n for n, d in self.window.docks.docks.items() if d.isVisible() and not d.visibleRegion().isEmpty()]
        return self.poke(self.window.docks.panels[self.pick(shown)]) if shown else self.dock()

    def dock(self) -> str:
        """Open, close, bring or float a panel."""
        name = self.pick(list(self.window.docks.docks))
        held, act = self.window.docks.docks[name], self.pick(("show", "show", "show", "toggle", "float", "workspace"))
        self.note(f"{act} {name}")
        if act == "show":
            self.window.show_dock(name)
        elif act == "toggle":
            held.toggleViewAction().trigger()
        elif act == "float":
            held.setFloating(not held.isFloating())
        else:
            workspaces = [r.id for r in self.window.actions_table.rows if r.menu == "View/Workspace"]
            self.window.actions_table.run(self.pick((*workspaces, "toggle_graph", "drawer")))
        return self.watch.trail[-1]

    def tab(self) -> str:
        bars = [b for b in inner(self.window, QTabBar) if b.count() > 1]
        if not bars:
            return self.dock()
        bar = self.pick(bars)
        place = self.drawn.randrange(bar.count())
        what = self.note(f"tab {bar.tabText(place)}")
        QTest.mouseClick(bar, Button.LeftButton, NONE, bar.tabRect(place).center())
        return what


def _words(widget: QWidget) -> str:
    return widget.text() if isinstance(widget, QAbstractButton) else widget.objectName()


def settle(seconds: float) -> None:
    """Let the window work for a while; what is to be deleted goes."""
    end = time.monotonic() + seconds
    while True:
        QCoreApplication.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        if time.monotonic() >= end:
            return
        time.sleep(0.002)
