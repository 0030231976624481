"""One story of a person at the real window: xdotool moves the pointer and types, the window's state is looked at.

    DISPLAY=:7 QT_QPA_PLATFORM=xcb python -m tests.real_window.story PART FOLDER

Runs in the window's process, so that it knows where a card is; what is done comes through the X server alone. Prints a
line of JSON. Parts: edit, wire, compare, kill (ends by SIGKILL after an edit), recover.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint, QSettings
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from espalier.app.canvas.wires import handle_of
from espalier.app.features.compare.actions import existing_panel
from espalier.app.settings import Settings
from espalier.app.shell.application import make_application, make_tabs
from espalier.app.shell.window import Window

NETWORK = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(13), nn.Linear(13, 37), nn.GELU(), nn.Linear(37, 13)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


def make():
    torch.manual_seed(1)
    return nn.Sequential(Block(), Block(), nn.Linear(13, 3)).eval(), {"input": torch.randn(2, 5, 13)}
"""
WAIT = 120.0  # [s]


class Person:
    """Somebody at the window, with a pointer and a keyboard."""

    def __init__(self, folder: Path) -> None:
        self.app = make_application()
        settings = Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))
        self.tabs = make_tabs(self.app, settings, "light")
        self.tabs.resize(1280, 800)
        self.tabs.show()
        self.wait(self.tabs.isActiveWindow, "the window manager gives the window the focus")

    @property
    def window(self) -> Window:
        """The tab in front."""
        return self.tabs.current

    def wait(self, until: Callable[[], object], what: str) -> None:
        """Let the window work until something holds."""
        end = time.monotonic() + WAIT
        while not until():
            if time.monotonic() > end:
                self.tabs.grab().save(str(Path(tempfile.gettempdir()) / "espalier-real-window.png"))
                raise SystemExit(f"After {WAIT:g} s not yet: {what}")
            self.app.processEvents()
            time.sleep(0.005)

    def act(self, *words: str) -> None:
        """What xdotool does, while the window works."""
        process = subprocess.Popen(("xdotool", *words))
        self.wait(lambda: process.poll() is not None, f"xdotool {' '.join(words)}")
        for _ in range(20):  # what arrived is handled
            self.app.processEvents()
            time.sleep(0.005)

    def point(self, widget: QWidget, at: QPoint) -> None:
        """Move the pointer to a place of a widget."""
        where = widget.mapToGlobal(at)
        self.act("mousemove", str(where.x()), str(where.y()))

    def click(self, widget: QWidget, at: QPoint) -> None:
        """Click there."""
        self.point(widget, at)
        self.act("click", "1")

    def key(self, *keys: str) -> None:
        """Press keys, one after another."""
        self.act("key", *keys)

    def open(self, source: str) -> None:
        """Open a model and wait until it is drawn."""
        self.window.begin_opening(source)
        self.wait(lambda: self.window.session.document is not None, f"{source} is open")
        self.wait(lambda: self.window.canvas.scene is not None and not self.window.canvas.waiting, "the graph is drawn")
        self.window.canvas.open_all()
        self.rest()

    def rest(self) -> None:
        """Wait until nothing is computed."""
        window = self.window
        self.wait(lambda: not window.canvas.waiting and not window.session.pending_edits, "edits are done")
        self.wait(lambda: not any(j.finished is None for j in window.session.jobs), "jobs are done")

    def spot(self, node: str, handle: bool = False) -> QPoint:
        """The pixel of a node's middle, or of the handle at its output, once the node is in view."""
        canvas = self.window.canvas
        assert canvas.scene is not None
        rect = canvas.scene.rect_of(canvas.scene.layout.tree.index[node])
        assert rect is not None, f"{node} is not drawn"
        place = handle_of(rect, canvas.scene.layout.horizontal) if handle else None
        x, y = canvas.camera.to_screen(*(place or (rect[0] + rect[2] / 2, rect[1] + rect[3] / 2)))
        return QPoint(round(x), round(y))

    @property
    def steps(self) -> list[str]:
        """The passes of the recipe."""
        return [step.pass_name for step in self.window.session.recipe.active]


def edit(person: Person) -> dict[str, Any]:
    """Select a card, mute it by M, undo by Ctrl+Z, do it again by Ctrl+Shift+Z."""
    canvas, found = person.window.canvas, {}
    person.click(canvas, person.spot("0_act"))
    found["selected"] = list(person.window.session.selection)
    person.key("m")
    person.wait(lambda: person.steps, "the edit is there")
    person.rest()
    found["after m"] = person.steps
    person.key("ctrl+z")
    person.wait(lambda: not person.steps, "the edit is undone")
    person.key("ctrl+shift+z")
    person.wait(lambda: person.steps, "the edit is done again")
    return found | {"after redo": person.steps}


def wire(person: Person) -> dict[str, Any]:
    """Drag from the handle of the first block's norm to the second block's norm."""
    canvas, graph = person.window.canvas, person.window.session.open_document.graph
    before = graph["1_norm"].inputs[0].node
    start, end = person.spot("0_norm", handle=True), person.spot("1_norm")
    person.point(canvas, person.spot("0_norm"))
    person.point(canvas, start)
    person.act("mousedown", "1")
    for share in (0.1, 0.5, 0.9, 1.0):
        person.point(canvas, start + (end - start) * share)
    person.act("mouseup", "1")
    person.wait(lambda: person.steps, "the wire is a step")
    person.rest()
    after = person.window.session.open_document.graph["1_norm"].inputs[0].node
    return {"before": before, "after": after, "steps": person.steps}


def compare(person: Person) -> dict[str, Any]:
    """Mute a node, then compare with the opened model by Ctrl+Shift+D."""
    person.click(person.window.canvas, person.spot("0_act"))
    person.key("m")
    person.wait(lambda: person.steps, "the edit is there")
    person.rest()
    person.key("ctrl+shift+d")

    def result() -> Any:
        panel = existing_panel(person.window.host)
        return panel and panel.comparing.result

    person.wait(result, "the comparison is there")
    return {"changed": [list(group.nodes) for group in result().groups]}


def tabs(person: Person) -> dict[str, Any]:
    """Edit a model, open a second tab by keys and another model in it, undo in the first one, close the second."""
    first = person.window
    person.click(first.canvas, person.spot("0_act"))
    person.key("m")
    person.wait(lambda: person.steps, "the edit is there")
    person.key("ctrl+t")
    person.wait(lambda: person.tabs.count == 2 and person.window is not first, "a second tab")
    person.open("demo:digits-mlp")
    second = person.window
    person.key("ctrl+Page_Up")
    person.wait(lambda: person.window is first, "the first tab is in front")
    named = [person.tabs.bar.tabText(i) for i in range(2)]
    person.rest()
    person.key("ctrl+z")
    person.wait(lambda: not person.steps, "the edit is undone")
    person.rest()
    person.click(person.tabs.bar, person.tabs.bar.tabRect(1).center())
    person.wait(lambda: person.window is second, "a click chooses a tab")
    person.rest()
    person.key("ctrl+w")
    person.wait(lambda: person.tabs.count == 1 and person.window is first, "the second tab is closed")
    return {"tabs": named, "steps": person.steps}


def kill(person: Person) -> dict[str, Any]:
    """Mute a node and die a second later, by the signal that nothing can catch."""
    person.click(person.window.canvas, person.spot("0_act"))
    person.key("m")
    person.wait(lambda: person.steps, "the edit is there")
    end = time.monotonic() + 1.0  # the promise: no edit older than that is lost
    person.wait(lambda: time.monotonic() > end, "a second has passed")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def recover(person: Person) -> dict[str, Any]:
    """Press the button that the next window offers."""

    def button() -> QPushButton | None:
        shown = (b for b in person.window.findChildren(QPushButton) if b.isVisible())
        return next((b for b in shown if b.text() == "Recover"), None)

    person.wait(button, "recovery is offered")
    pressed = button()
    assert pressed is not None
    offered = " ".join(label.text() for label in pressed.parentWidget().findChildren(QLabel))
    person.click(pressed, pressed.rect().center())
    person.wait(lambda: person.window.session.document is not None and person.steps, "the edits are back")
    return {"offer": offered, "steps": person.steps}


PARTS = {part.__name__: part for part in (edit, wire, compare, tabs, kill, recover)}


def main() -> None:
    """Play one part."""
    part, folder = sys.argv[1], Path(sys.argv[2])
    person = Person(folder)
    if part != "recover":
        (folder / "net.py").write_text(NETWORK)
        person.open(f"{folder / 'net.py'}:make")
    found = PARTS[part](person)
    for window in person.tabs.windows:
        window.close_now()
    sys.stdout.write(json.dumps(found) + "\n")
    QApplication.sendPostedEvents()


if __name__ == "__main__":
    main()
