"""Random hands: what a person might do in the window, by mouse and keys where there is a widget for it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, QPointF, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFileDialog,
    QInputDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QTabBar,
    QWidget,
)

from espalier.app.shell.application import IDLE
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Step
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.passes.transform.finetune import FinetuneOptions
from tests.attack.soak.inner import inner, windows
from tests.attack.soak.watch import Watch

T = TypeVar("T")
Key, Button, NONE = Qt.Key, Qt.MouseButton, Qt.KeyboardModifier.NoModifier
BANNED = ("quit", "crash_reports")
SLOW = ("kernels_run", "timed_", "hardware", "emit")  # measure this machine for minutes
WORDS = ("4", "8", "0.5", "abc", "-1", "1e9", "fc*", "", "0", "16", "linear", "2,3,4", "weight_bits<=4")
KEYS = (Key.Key_Up, Key.Key_Down, Key.Key_Left, Key.Key_Right, Key.Key_Home, Key.Key_End, Key.Key_Return, Key.Key_Tab,
        Key.Key_Space, Key.Key_Delete, Key.Key_PageDown, Key.Key_Plus, Key.Key_Minus, Key.Key_Escape, Key.Key_F2,
        Key.Key_A, Key.Key_E)  # fmt: skip
DEMOS = ("demo:digits", "demo:digits-mlp", "demo:reviews")
FOREIGN = '''"""A model that is nobody's."""
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 16), nn.GELU(), nn.Linear(16, 10)]
    return nn.Sequential(*layers), (torch.zeros(2, 1, 8, 8),)
'''


class _Links(QObject):
    """Takes what would open another program."""

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        """Nothing."""


class User:
    """One person at one window; everything that he does comes from `drawn`."""

    def __init__(self, window: Window, watch: Watch, drawn: Random, folder: Path) -> None:
        self.window, self.session, self.watch, self.drawn = window, window.session, watch, drawn
        self.folder, self._links = folder, _Links()
        for scheme in ("file", "http", "https"):
            QDesktopServices.setUrlHandler(scheme, self._links, "take")
        (folder / "foreign.py").write_text(FOREIGN)
        self.acts: dict[Callable[[], str], int] = {
            self.click_canvas: 14, self.wheel: 6, self.drag: 5, self.canvas_key: 4, self.select: 10,
            self.set_format: 10, self.set_sparsity: 5, self.undo: 8, self.redo: 6, self.steps: 8, self.recipe_keys: 6,
            self.poke_inspector: 12, self.poke_dock: 16, self.dock: 8, self.tab: 8, self.row: 14, self.shortcut: 5,
            self.theme: 2, self.find: 2, self.resize: 1, self.evaluate: 3, self.report: 4, self.sweep: 2,
            self.search: 2, self.train: 2, self.stop: 6, self.pause: 2, self.save: 3, self.open: 3, self.reload: 2,
            self.close: 1, self.banner: 3,
        }  # fmt: skip

    # -- one action

    def act(self) -> None:
        """Something at random; a menu or a dialog that is open comes first."""
        popup, modal = QApplication.activePopupWidget(), QApplication.activeModalWidget()
        if popup is not None:
            self._do(lambda: self.answer_menu(popup))
        elif modal is not None:
            self._do(lambda: self.answer(modal))
        elif self.session.document is None and self.drawn.random() < 0.5:
            self._do(self.open)
        else:
            self._do(self.drawn.choices(list(self.acts), list(self.acts.values()))[0])

    def _do(self, act: Callable[[], str]) -> None:
        self.watch.action += 1
        self.watch.trail.append(act.__name__)
        self.note(act.__name__.lstrip("<"))

        def go() -> None:
            self.watch.trail[-1] = act() or self.watch.trail[-1]

        try:
            self.watch.turn(go)
        except Exception as error:  # noqa: BLE001  # what a slot raises where no event loop is between
            self.watch._crashed("", error)
        self.watch.look()

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

    # -- the recipe

    def _format(self) -> Format | None:
        widths = self.pick((2, 3, 4, 5, 6, 8))
        return self.pick((Integer(widths, widths // 2), Integer(widths, widths - 1), MXInt(), None))

    def set_format(self) -> str:
        if not self.session.selection:
            return self.select()
        fmt, port = self._format(), self.pick(("weight", "weight", "data_in", "bias"))
        what = self.note(f"format {fmt} of {port}")
        self.session.set_format(self.session.selection, port, fmt)
        return what

    def set_sparsity(self) -> str:
        if not self.session.selection:
            return self.select()
        ratio = self.drawn.randrange(0, 100) / 100
        self.session.set_sparsity(self.session.selection, ratio, self.pick(("l1", "random")))
        return f"sparsity {ratio}"

    def undo(self) -> str:
        self.session.undo()
        return "undo"

    def redo(self) -> str:
        self.session.redo()
        return "redo"

    def steps(self) -> str:
        """A step is moved, switched, removed or varied, as its row is shown: an edit may wait already."""
        panel, count = (
            self.window.docks.panels["recipe"],
            len(self.session.document.recipe if self.session.document else ()),
        )
        if not count:
            return self.set_sparsity()
        panel.view.setCurrentIndex(panel.model.index(1 + self.drawn.randrange(count)))
        what, act = self.pick((("remove", panel.remove), ("switch", panel.switch), ("up", lambda: panel.shift(-1)),
                               ("down", lambda: panel.shift(1)), ("duplicate", panel.duplicate), ("copy", panel.copy),
                               ("paste", panel.paste), ("edit", panel.edit), ("switch", panel.switch)))  # fmt: skip
        self.note(f"step {panel.step} {what}")
        act()
        return self.watch.trail[-1]

    def recipe_keys(self) -> str:
        view = self.window.docks.panels["recipe"].view
        keys, alt = (Key.Key_Up, Key.Key_Down, Key.Key_Space, Key.Key_Delete), Qt.KeyboardModifier.AltModifier
        self.note("keys in the recipe")
        for _ in range(2):
            QTest.keyClick(view, self.pick(keys), self.pick((NONE, NONE, alt)))
        return "keys in the recipe"

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
        inner = widget.viewport() if isinstance(widget, QAbstractItemView) else widget
        match self.drawn.randrange(6):
            case 0:
                self._key(widget)
            case 1:
                self.wheel(inner)
            case 2:
                self.drag(inner)
            case 3:
                QTest.mouseDClick(inner, Button.LeftButton, NONE, self._place(inner))
            case _:
                QTest.mouseMove(inner, self._place(inner))
                QTest.mouseClick(inner, self.pick((Button.LeftButton, Button.LeftButton, Button.RightButton)), NONE,
                                 self._place(inner))  # fmt: skip

    def poke_inspector(self) -> str:
        self.window.show_dock("inspector")
        return self.poke(self.window.docks.panels["inspector"])

    def poke_dock(self) -> str:
        shown = [n for n, d in self.window.docks.docks.items() if d.isVisible() and not d.visibleRegion().isEmpty()]
        return self.poke(self.window.docks.panels[self.pick(shown)]) if shown else self.dock()

    def dock(self) -> str:
        """Open, close, bring or float a panel."""
        name = self.pick(list(self.window.docks.docks))
        held, act = self.window.docks.docks[name], self.pick(("show", "show", "show", "toggle", "float", "larger"))
        self.note(f"{act} {name}")
        if act == "show":
            self.window.show_dock(name)
        elif act == "toggle":
            held.toggleViewAction().trigger()
        elif act == "float":
            held.setFloating(not held.isFloating())
        else:
            self.window.actions_table.run("larger")
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

    # -- menus

    def row(self) -> str:
        """A row of the menus, chosen as it would be by mouse."""
        able = [r.id for r in self.window.actions_table.rows if self.window.actions_table.actions[r.id].isEnabled()]
        name = self.pick([n for n in able if n not in BANNED and (self.drawn.random() < 0.1 or not n.startswith(SLOW))])
        self.note(f"row {name}")
        self.window.actions_table.actions[name].trigger()
        return f"row {name}"

    def shortcut(self) -> str:
        rows = [r for r in self.window.actions_table.rows if r.key and r.id not in BANNED and not r.id.startswith(SLOW)]
        chosen = self.pick(rows)
        self.note(f"key of {chosen.id}")
        self.window.activateWindow()
        QTest.keySequence(self.window, QKeySequence(chosen.key))
        return self.watch.trail[-1]

    def answer_menu(self, menu: QWidget) -> str:
        """Choose a row of a menu, or leave it."""
        rows = [a for a in menu.actions() if a.isEnabled() and not a.isSeparator() and a.objectName() not in BANNED
                ] if isinstance(menu, QMenu) else []  # fmt: skip
        if rows and self.drawn.random() < 0.7 and isinstance(menu, QMenu):
            chosen = self.pick(rows)
            what = self.note(f"menu: {chosen.text()}")
            QTest.mouseClick(menu, Button.LeftButton, NONE, menu.actionGeometry(chosen).center())
            return what
        QTest.keyClick(menu, Key.Key_Escape)
        if menu.isVisible():
            menu.close()
        return "leave a menu"

    def answer(self, dialog: QWidget) -> str:
        """Answer what is asked."""
        what = self.note(f"answer {type(dialog).__name__} {dialog.windowTitle()!r}")
        yes = self.drawn.random() < 0.6
        match dialog:
            case QMessageBox():
                QTest.mouseClick(self.pick(dialog.buttons()), Button.LeftButton)
            case QFileDialog():
                self._choose(dialog) if yes else dialog.reject()
            case QInputDialog():
                dialog.setTextValue(self.pick((*DEMOS, "demo:none", "nothing", f"{self.folder / 'foreign.py'}:make")))
                dialog.accept() if yes else dialog.reject()
            case QDialog():
                self.poke(dialog) if yes else dialog.reject()
            case _:
                dialog.close()
        return what

    def _choose(self, dialog: QFileDialog) -> None:
        """A file of ours: to write, one of a few names; to read, what is there."""
        dialog.setDirectory(str(self.folder))
        if dialog.fileMode() == QFileDialog.FileMode.Directory:
            (self.folder / "exported").mkdir(exist_ok=True)
            dialog.selectFile(str(self.folder / "exported"))
        elif dialog.acceptMode() == QFileDialog.AcceptMode.AcceptSave:
            held = dialog.selectedFiles()
            name = Path(held[0]).name if held and "." in held[0] else self.pick(("a.png", "b.csv", "c.svg"))
            name = (
                f"{self.drawn.randrange(1000)}-{name}"
                if not name.endswith(".espalier")
                else f"{self.pick('abc')}.espalier"
            )
            dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
            dialog.selectFile(str(self.folder / name))
        else:
            there = [p for p in self.folder.iterdir() if p.is_file()]
            dialog.selectFile(str(self.pick(there)))
        dialog.accept()
        if dialog.isVisible():  # it does not like the name
            dialog.reject()

    # -- the rest

    def theme(self) -> str:
        mode = self.pick(("light", "dark", "system"))
        self.window.actions_table.actions[f"theme_{mode}"].trigger()
        return f"theme {mode}"

    def find(self) -> str:
        self.window.finder.begin()
        field = QApplication.focusWidget()
        if isinstance(field, QLineEdit):
            QTest.keyClicks(field, self.pick(("lin", "prune", "conv", "zz", "dark", "fc1")))
            QTest.keyClick(field, self.pick((Key.Key_Return, Key.Key_Escape)))
        return "find"

    def resize(self) -> str:
        self.window.resize(self.drawn.randrange(700, 1700), self.drawn.randrange(500, 1050))
        return "resize"

    def evaluate(self) -> str:
        if self.session.document is not None and self.session.measured_on.data:
            self.session.evaluate()
        return "evaluate"

    def report(self) -> str:
        rows = [r.id for r in self.window.actions_table.rows if r.id.startswith("report_")]
        name = self.pick(rows)
        self.note(f"report {name}")
        self.window.actions_table.actions[name].trigger()
        return f"report {name}"

    def sweep(self) -> str:
        if self.session.document is not None:
            self.window.docks.panels["sweeps"].run_example()
        return "sweep"

    def search(self) -> str:
        if self.session.document is not None:
            self.window.docks.panels["search"].run_example()
        return "search"

    def train(self) -> str:
        data = self.session.measured_on.data
        if self.session.document is not None and data:
            wish = FinetuneOptions(data=data, max_steps=self.pick((5, 50, 2000)), train_limit=256, validation_limit=64)
            self.session.set_recipe(self.session.recipe.append(Step("finetune", wish)), "Train")
        return "train"

    def stop(self) -> str:
        if self.session.jobs:
            job = self.pick(self.session.jobs)
            act = self.pick((self.session.cancel, self.session.cancel, self.session.stop_and_keep))
            act(job.id)
            return f"{act.__name__} {job.title}"
        return "stop nothing"

    def pause(self) -> str:
        for job in self.session.jobs[:1]:
            (self.session.resume if job.state == "paused" else self.session.pause)(job.id)
        return "pause or go on"

    def save(self) -> str:
        if self.session.document is None:
            return ""
        if self.drawn.random() < 0.5:
            self.window.actions_table.actions["save"].trigger()
            return "save"
        path = self.folder / f"{self.pick('abcdef')}.espalier"
        if self.window.ownership.free(path):
            self.session.save_as(path)
        return f"save as {path.name}"

    def open(self) -> str:
        spec = self.pick((*DEMOS, f"{self.folder / 'foreign.py'}:make"))
        self.note(f"open {Path(spec).name}")
        self.window.services.opening.open_spec(spec)
        return self.watch.trail[-1]

    def reload(self) -> str:
        there = sorted(self.folder.glob("*.espalier"))
        if there:
            path = self.pick(there)
            self.window.services.opening.open_spec(str(path))
            return f"open {path.name}"
        return self.save()

    def close(self) -> str:
        self.window.services.saving.close()
        return "close"

    def banner(self) -> str:
        if self.window.banner.isVisible():
            return self.poke(self.window.banner)
        return self.click_canvas()

    # -- rest

    def answer_all(self) -> None:
        """Leave all menus and dialogs."""
        for _ in range(20):
            popup = QApplication.activePopupWidget()
            if popup is not None:
                popup.close()
        for widget in windows():
            with contextlib.suppress(RuntimeError):  # it went with the one before it
                if isinstance(widget, QDialog) and widget.isVisible():
                    widget.reject()

    def rest(self, patience: float = 60.0) -> None:
        """Close everything but the window, and wait until nothing runs."""
        self.watch.trail.append("rest")
        self.answer_all()
        self.window.services.saving.forget_then()
        end = time.monotonic() + patience
        self.session.close()
        while self.session.jobs and time.monotonic() < end:
            for job in list(self.session.jobs):
                self.session.cancel(job.id)
            settle(0.3)
        if self.session.jobs:
            self.watch.wrong("jobs", f"They do not end: {[(j.title, j.state) for j in self.session.jobs]}")
        self.session.close()  # one may have been opened meanwhile
        self.window.banner.clear()
        settle(0.7)

    def warm(self, patience: float = 180.0) -> None:
        """Have a worker that has done something, whatever became of the one before; then rest."""
        end, told = time.monotonic() + patience, len(self.watch.problems)
        self.session.open("demo:digits-mlp")
        while (self.session.document is None or self.session.jobs) and time.monotonic() < end:
            settle(0.1)
        if self.session.document is None and len(self.watch.problems) == told:
            self.watch.wrong("worker", "It opens nothing any more.")
        self.rest()
        settle(IDLE / 1000 + 0.5)  # threads of the pool end, with what they hold open


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
