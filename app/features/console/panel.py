"""The panel Console: output above, the entry below, and what acts on both in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QCheckBox, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.console.entry import Entry
from espalier.app.features.console.history import History
from espalier.app.features.console.output import OutputView
from espalier.app.features.console.state import console_of
from espalier.app.settings import data_folder
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided, link
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.session.session import Session

INDENT = 10  # pixels, of the texts
READY = tr("m: the open model · selection: its selected nodes · es, np, torch")


def history() -> History:
    """The history of this user; without a folder for it, one of this session."""
    try:
        return History(data_folder("console") / "history.jsonl")
    except EspalierError:
        return History(None)


class ConsolePanel(QWidget):
    """Signals: `script_wanted` (save the recipe as a script), `left` (Escape)."""

    script_wanted = Signal()
    left = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history = history()
        console = self._console = console_of(session)
        self.run, self.echo = console.run, console.echo
        self.output, self.entry = OutputView(self), Entry(self._history, self)
        self.prompt, self.status = QLabel(">>>"), Elided(READY, "muted")
        self.prompt.setObjectName("console_prompt")
        self.prompt.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight)
        self.echo_box = QCheckBox(tr("Echo actions"))
        self.echo_box.setToolTip(tr("Show each action in the window as its line of Python"))
        self.echo_box.setChecked(True)
        self.script_link = link(tr("Save as script…"), self.script_wanted.emit)
        self.script_link.setToolTip(tr("Save the recipe of the open model as a Python program"))
        self.clear_link = link(tr("Clear"), self.clear)
        self.restart_link = link(tr("Restart"), self.run.restart)
        self.restart_link.setToolTip(tr("End the console's process and begin with a new one; its names are lost"))
        self.stop_link = link(tr("Stop"), self.run.stop)
        self.stop_link.setToolTip(tr("Interrupt the running code (Ctrl+C)"))
        self.setFocusProxy(self.entry)
        self._lay_out()
        self._connect(session)
        self.output.show_lines(False, list(console.lines))
        self._refresh()

    def _lay_out(self) -> None:
        strip, foot = QHBoxLayout(), QFrame()
        foot.setProperty("foot", True)
        line = QHBoxLayout(foot)
        line.setContentsMargins(INDENT, 2, 0, 0)
        box = QVBoxLayout(self)
        box.setContentsMargins(6, 2, 6, 4)
        box.setSpacing(2)
        box.addLayout(strip)
        box.addWidget(self.output, 1)
        box.addWidget(foot)
        strip.setContentsMargins(INDENT, 0, 0, 0)
        strip.setSpacing(8)
        strip.addWidget(self.status, 1)
        for widget in (self.echo_box, self.script_link, self.clear_link, self.restart_link, self.stop_link):
            strip.addWidget(widget)
        line.setSpacing(2)
        line.addWidget(self.prompt)
        line.addWidget(self.entry, 1)

    def _connect(self, session: Session) -> None:
        run, entry = self.run, self.entry
        run.shown.connect(self.output.show_lines)
        run.state_changed.connect(self._refresh)
        run.completed.connect(entry.complete)
        entry.entered.connect(self._entered)
        entry.completion_wanted.connect(run.complete)
        entry.ended.connect(lambda: run.enter(None))
        entry.clear_wanted.connect(self.clear)
        entry.left.connect(self.left)
        entry.focused.connect(run.start)
        for part in (entry, self.output):
            part.stop_wanted.connect(run.stop)
        self.output.typed.connect(self._type)
        self.echo_box.toggled.connect(self._set_echo)
        session.opened.connect(self._refresh)

    def clear(self) -> None:
        """Drop the lines of the output."""
        self._console.lines.clear()
        self.output.clear()

    def _set_echo(self, enabled: bool) -> None:
        self.echo.enabled = enabled

    def _type(self, event: QKeyEvent) -> None:
        """A key that was pressed in the output goes to the entry."""
        self.entry.setFocus()
        QApplication.sendEvent(self.entry, event)

    def _entered(self, text: str) -> None:
        if self.run.waits_for_line:
            self.entry.clear()
            self.run.enter(text)
        elif self.run.running:
            self.status.show_text(tr("The code is still running. Wait, or press Stop."))
        elif text.strip():
            text = text.rstrip()
            self._history.add(text)
            self.entry.clear()
            self.run.run(text)

    def _refresh(self) -> None:
        run = self.run
        self.entry.takes_line = run.waits_for_line
        self.prompt.setText(tr("input") if run.waits_for_line else ">>>")
        self.stop_link.setEnabled(bool(run.running))
        self.restart_link.setEnabled(run.pid is not None)
        self.script_link.setEnabled(self.run.has_document)
        self.status.show_text(self._state())

    def _state(self) -> str:
        run = self.run
        if run.waits_for_line:
            return tr("The code waits for a line of input.")
        if run.stuck:
            return tr("The code does not stop. Restart ends it.")
        if run.running:
            return tr("Running: {}", run.progress) if run.progress else tr("Running…") if run.ready else tr("Starting…")
        return READY if run.has_document else tr("No model is open: m is not set.")
