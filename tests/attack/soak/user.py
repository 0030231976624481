"""Random hands: what a person might do in the window, by mouse and keys where there is a widget for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from PySide6.QtCore import QObject, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLineEdit,
)

from espalier.app.shell.application import IDLE
from espalier.app.shell.memory import PAUSE
from espalier.app.shell.tabs import Tabs
from espalier.model.document.recipe import Step
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.passes.transform.finetune import FinetuneOptions
from tests.attack.soak.hands import NONE, Key, settle
from tests.attack.soak.inner import windows
from tests.attack.soak.menus import DEMOS, MenuHands
from tests.attack.soak.watch import Watch

TABS = 4  # open at the same time
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


class User(MenuHands):
    """One person at one window; everything that he does comes from `drawn`."""

    def __init__(self, tabs: Tabs, watch: Watch, drawn: Random, folder: Path) -> None:
        super().__init__(tabs, watch, drawn, folder)
        self._links = _Links()
        for scheme in ("file", "http", "https"):
            QDesktopServices.setUrlHandler(scheme, self._links, "take")
        (folder / "foreign.py").write_text(FOREIGN)
        self.acts: dict[Callable[[], str], int] = {
            self.click_canvas: 14, self.wheel: 6, self.drag: 5, self.canvas_key: 4, self.select: 10,
            self.set_format: 10, self.set_sparsity: 5, self.undo: 8, self.redo: 6, self.steps: 8, self.recipe_keys: 6,
            self.poke_inspector: 12, self.poke_dock: 16, self.dock: 8, self.tab: 8, self.row: 14, self.shortcut: 5,
            self.theme: 2, self.find: 2, self.resize: 1, self.evaluate: 3, self.report: 4, self.sweep: 2,
            self.search: 2, self.train: 2, self.stop: 6, self.pause: 2, self.save: 3, self.open: 3, self.reload: 2,
            self.close: 1, self.banner: 3, self.new_tab: 2, self.step_tab: 4, self.close_tab: 2,
        }  # fmt: skip

    # -- one action

    def act(self) -> None:
        """Something at random; a menu or a dialog that is open comes first."""
        popup, modal = QApplication.activePopupWidget(), QApplication.activeModalWidget()
        if popup is not None:
            self._do(lambda: self.answer_menu(popup))
        elif modal is not None:
            self._do(lambda: self.answer(modal))
        elif self.tabs.count > TABS:
            self._do(self.close_tab)
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

    # -- the rest

    def theme(self) -> str:
        mode = self.pick(("light", "dark", "system"))
        self.window.actions_table.actions[f"theme_{mode}"].trigger()
        return f"theme {mode}"

    def find(self) -> str:
        self.window.find_field.begin()
        field = QApplication.focusWidget()
        if isinstance(field, QLineEdit):
            QTest.keyClicks(field, self.pick(("lin", "prune", "conv", "zz", "dark", "fc1")))
            QTest.keyClick(field, self.pick((Key.Key_Return, Key.Key_Escape)))
        return "find"

    def resize(self) -> str:
        self.tabs.resize(self.drawn.randrange(700, 1700), self.drawn.randrange(500, 1050))
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
        if self.window.ownership.may_write(path):
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

    def new_tab(self) -> str:
        """Open an empty tab, or a model in a tab of its own."""
        spec = self.pick(("", *DEMOS))
        self.note(f"new tab {spec}")
        self.tabs.open(spec) if spec else self.tabs.new()
        return self.watch.trail[-1]

    def step_tab(self) -> str:
        self.tabs.step(self.pick((1, -1)))
        return f"tab {self.tabs.bar.currentIndex() + 1} of {self.tabs.count}"

    def close_tab(self) -> str:
        self.tabs.close_current()
        return "close a tab"

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
        """Close everything but the window with one tab, and wait until nothing runs."""
        self.watch.trail.append("rest")
        self.answer_all()
        end = time.monotonic() + patience
        for window in self.tabs.windows:
            window.services.saving.cancel_continuation()
            window.session.close()
        while self.tabs.count > 1:
            self.tabs.close_current()
        while self.tabs._ending.windows and time.monotonic() < end:
            settle(0.1)
        if self.tabs._ending.windows:
            self.watch.wrong("tabs", f"{len(self.tabs._ending.windows)} closed ones do not end.")
        while self.session.jobs and time.monotonic() < end:
            for job in list(self.session.jobs):
                self.session.cancel(job.id)
            settle(0.3)
        if self.session.jobs:
            self.watch.wrong("jobs", f"They do not end: {[(j.title, j.state) for j in self.session.jobs]}")
        self.session.close()  # one may have been opened meanwhile
        self.window.build_panels()
        for name in self.window.docks.docks:  # the tab that is left may be one that had few
            _ = self.window.docks.panels[name]
        self.window.banner.clear()
        QApplication.clipboard().clear()  # a copied picture of the graph is 29 MiB, until something else is copied
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
        settle(max(IDLE, PAUSE) / 1000 + 0.5)  # threads of the pool end, and free memory goes back to the system
