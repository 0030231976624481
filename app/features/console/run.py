"""Runs texts in the console's process and turns its messages into lines and states. The window never waits for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from espalier.app.features.console.document_link import DocumentLink
from espalier.app.features.console.messages import (
    ECHO,
    ERROR,
    NOTE,
    Choose,
    Complete,
    Completions,
    Edit,
    Ended,
    Interrupt,
    KeepSelections,
    Line,
    Move,
    Output,
    Progress,
    Ready,
    Reply,
    Run,
    SaveCopy,
    Waiting,
    Withdraw,
)
from espalier.app.features.console.process import ConsoleProcess, Died, Unsent
from espalier.app.features.console.terminal import Terminal
from espalier.app.translation import error_text, tr
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TYPED = "typed"  # kind of the lines of the user
INTERVAL = 16  # milliseconds between two looks at what has arrived
CHUNK = 128 * 1024  # characters that are shown at once
PATIENCE = 3000  # milliseconds after which a text that does not stop is called stuck


class ConsoleRun(QObject):
    """The process, started by the first text. Signals: `shown` (replaces the last line, lines), `state_changed`,
    `completed` (text, length, words).
    """

    shown = Signal(bool, list)
    state_changed = Signal()
    completed = Signal(str, int, tuple)
    _woken = Signal()

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._process: ConsoleProcess | None = None
        self._numbers = itertools.count(1)
        self._terminal = Terminal()
        self.document = DocumentLink(session, self._reply, self)
        self.running = 0  # the number of the running text; 0: none
        self.ready = False
        self.waits_for_line = self.stuck = False
        self.progress = ""
        self._scheduled = False
        self._soon = QTimer(self, interval=INTERVAL, singleShot=True)
        self._soon.timeout.connect(self._take)
        self._patience = QTimer(self, interval=PATIENCE, singleShot=True)
        self._patience.timeout.connect(self._call_stuck)
        self._woken.connect(self._soon.start, Qt.ConnectionType.QueuedConnection)
        session.ending.connect(self.end)

    @property
    def pid(self) -> int | None:
        """The process id; None while there is no process."""
        return self._process.pid if self._process else None

    @property
    def has_document(self) -> bool:
        """Whether a model is open."""
        return self._session.document is not None

    def start(self) -> None:
        """Start the process, if there is none."""
        if self._process is None:
            self.ready = False
            self.document.forget()
            self._process = ConsoleProcess(self._wake)
            self.state_changed.emit()

    def run(self, text: str) -> None:
        """Run a text; does nothing while another one runs."""
        if self.running:
            return
        first, *rest = text.split("\n")
        self.add_lines(TYPED, [f">>> {first}", *(f"... {line}" for line in rest)])
        self.start()
        assert self._process is not None
        try:
            update = self.document.update()
        except EspalierError as error:
            self.add_lines(ERROR, [error_text(error)])
            return
        self.running = next(self._numbers)
        self._process.post(Run(self.running, text, update, self._session.selection))
        self.state_changed.emit()

    def enter(self, line: str | None) -> None:
        """Give input() a line; None: there will be no more."""
        if self.waits_for_line and self._process is not None:
            self.waits_for_line = False
            self._terminal.feed(TYPED, f"{line or ''}\n")
            self._show()
            self._process.post(Line(line))
            self.state_changed.emit()

    def stop(self) -> None:
        """Interrupt the running text."""
        if self.running and self._process is not None:
            self._process.post(Interrupt(self.running))
            self._patience.start()

    def restart(self) -> None:
        """End the process, whatever it runs; a new one begins."""
        self._drop()
        self.start()
        self.add_lines(NOTE, [tr("A new interpreter: m and selection are set, other names are gone.")])

    def complete(self, text: str) -> None:
        """Ask for completions; `completed` brings them. A running text has to end first."""
        if not self.running:
            self.start()
            assert self._process is not None
            self._process.post(Complete(text))

    def end(self) -> None:
        """End the process with the window."""
        self._drop()

    def add_lines(self, kind: str, lines: list[str]) -> None:
        """Show lines that are not output of a text."""
        for line in lines:
            self._terminal.add(kind, line)
        self._show()

    def echo(self, line: str) -> None:
        """Show an action of the window."""
        self.add_lines(ECHO, [f">>> {line}"])

    # -- what the process sends

    def _wake(self) -> None:
        """Called from the threads of the process."""
        if not self._scheduled:
            self._scheduled = True
            self._woken.emit()

    def _take(self) -> None:
        process = self._process
        if process is None:
            return
        self._scheduled = False
        messages = process.take(CHUNK)
        for message in messages:
            if self._process is not process:
                return
            self._handle(message)
        self._show()
        if messages:
            self._soon.start()

    def _show(self) -> None:
        replaces, lines = self._terminal.take()
        if lines:
            self.shown.emit(replaces, lines)

    def _handle(self, message: Any) -> None:
        match message:
            case Output(kind=kind, text=text):
                self._terminal.feed(kind, text)
                return
            case Progress(done=done, total=total, text=text):
                self.progress = f"{text} {done}/{total}" if total else text
            case Completions(text=text, length=length, words=words):
                self.completed.emit(text, length, words)
                return
            case Edit() | Move() | Choose() | KeepSelections() | SaveCopy():
                self.document.carry_out(message)
                return
            case Withdraw():
                self.document.withdraw()
                return
            case _:
                self._change_state(message)
        self.state_changed.emit()

    def _change_state(self, message: Any) -> None:
        match message:
            case Ready():
                self.ready = True
            case Ended():
                self._ended()
            case Waiting():
                self.waits_for_line = True
            case Died():
                self._drop()
                what = tr("The console's process ended ({}).", message.reason)
                self.add_lines(
                    ERROR, [what, tr("Its names are lost; the document is unchanged. Run code to start it again.")]
                )
            case Unsent(reason=reason):
                self._ended()
                what = tr("The console and the window do not understand each other ({}).", reason)
                self.add_lines(ERROR, [what, tr("Load the plug-in of the document's steps, then Restart.")])
            case _:
                pass

    def _ended(self) -> None:
        self.running, self.waits_for_line, self.stuck, self.progress = 0, False, False, ""
        self._terminal.end_line()
        self._patience.stop()

    def _call_stuck(self) -> None:
        if self.running:
            self.stuck = True
            self.add_lines(NOTE, [tr("The code does not stop. Restart ends the process; its names are lost then.")])
            self.state_changed.emit()

    def _reply(self, reply: Reply) -> None:
        if self._process is not None:
            self._process.post(reply)

    def _drop(self) -> None:
        process, self._process = self._process, None
        self._soon.stop()
        self._ended()
        self.ready = self._scheduled = False
        self.document.forget()
        if process is not None:
            process.stop()
        self.state_changed.emit()
