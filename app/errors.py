"""The only place that shows errors: a banner that blocks nothing, and a report file for bugs.

What a user can mend arrives as EspalierError (message, hint, node); anything else is a bug and is written down.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from espalier.app.measured.live import is_evaluation
from espalier.app.settings import data_folder
from espalier.app.widgets.heading import column_of, row_of
from espalier.model.errors import EspalierError, JobError
from espalier.model.files import write_private
from espalier.model.private import redacted
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, JobInfo, ReplayJob, Started

if TYPE_CHECKING:
    from espalier.app.session.session import Session

KEPT_REPORTS = 20
EDIT = "edit"
Button = tuple[str, Callable[[], object]]


def cause(job: JobInfo) -> str:
    """What an error of a job came of: it is solved when the same is tried again, or goes well."""
    return EDIT if isinstance(job.job, ReplayJob) else job.title


class Banner(QFrame):
    """One message above the canvas, with what to do; a new one replaces the old, but for an offer, which comes back."""

    show_node = Signal(str)
    show_log = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._message, self._hint = QLabel(wordWrap=True), QLabel(wordWrap=True)
        self._message.setProperty("role", "strong")
        self._hint.setProperty("role", "muted")
        for label in (self._message, self._hint):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words = column_of(2)
        words.addWidget(self._message)
        words.addWidget(self._hint)
        self._buttons = row_of(4)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 8, 8)
        row.addLayout(words, 1)
        row.addLayout(self._buttons)
        self.setAccessibleName("Message")
        self._cause, self._warned = "", ""
        self._unnamed: JobError | None = None  # what is shown of a job, until it is heard of which
        self._offer: tuple[str, str, list[Button]] | None = None
        self._offers = False  # whether the offer is what is shown
        self.hide()

    @property
    def text(self) -> str:
        """What is shown, or nothing."""
        return f"{self._message.text()} {self._hint.text()}".strip() if not self.isHidden() else ""

    def error(self, error: EspalierError) -> None:
        """Show what happened, what to do, and the way to the node at fault, or to the log of a job."""
        node = error.node
        buttons: list[Button] = [("Show node", lambda: self.show_node.emit(node))] if node else []
        if isinstance(error, JobError):
            buttons.append(("Show log", self.show_log.emit))
        self.tell(error.message, error.hint, buttons, "error")
        self._unnamed, self._cause = (error, "") if isinstance(error, JobError) else (None, EDIT)

    def follow(self, session: Session) -> None:
        """Show the problems of a session until they no longer hold."""
        session.problem.connect(self.error)
        session.job_event.connect(self.hear)
        session.changed.connect(lambda _: self.solve(EDIT))
        session.opened.connect(lambda: self._warn(""))

    def hear(self, heard: JobEvent) -> None:
        """Know which job the error is of; take it away when the same is tried again."""
        if isinstance(heard.event, Failed):
            told = self._unnamed
            if told and (told.message, told.hint) == (heard.event.message, heard.event.hint):
                self._unnamed, self._cause = None, cause(heard.job)
        elif isinstance(heard.event, Started):
            self.solve(cause(heard.job))
        elif isinstance(heard.event, Done) and is_evaluation(heard.job):
            self._warn(str(heard.event.result.summary.get("warning", "")))

    def _warn(self, text: str) -> None:
        """Tell once what of the data is likely not as it was meant; each edit measures on it again."""
        if text and text != self._warned:
            self.tell(text)
        elif not text and self._warned == self._message.text():
            self.leave()
        self._warned = text

    def solve(self, of: str) -> None:
        """Take away an error that came of this: it no longer holds."""
        if of == self._cause:
            self._cause = ""
            self.leave()

    def offer(self, message: str, hint: str, buttons: list[Button]) -> None:
        """Show a message that stands until it is dismissed or dropped: others are shown before it meanwhile."""
        self.tell(message, hint, buttons)
        self._offer, self._offers = (message, hint, buttons), True

    def leave(self) -> None:
        """Take away what is shown; an offer stays, and one that it stood before is shown again."""
        if self._offers:
            return
        self.hide()
        if self._offer is not None:
            self.offer(*self._offer)

    def drop(self) -> None:
        """Take away the offer: it is decided on."""
        self._offer = None
        if self._offers:
            self.clear()

    def clear(self) -> None:
        """Take away all, offers too."""
        self._offer, self._offers = None, False
        self.hide()

    def tell(self, message: str, hint: str = "", buttons: list[Button] | None = None, kind: str = "note") -> None:
        """Show a message with buttons; Dismiss is always there."""
        self._cause, self._unnamed, self._offers = "", None, False
        self._message.setText(message)
        self._hint.setText(hint)
        self._hint.setVisible(bool(hint))
        while item := self._buttons.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        for title, act in buttons or []:
            self._button(title, lambda act=act: (self.leave(), act()))
        self._button("Dismiss", lambda: self.drop() if self._offers else self.leave())
        self.setProperty("banner", kind)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()

    def _button(self, title: str, act: Callable[[], object]) -> None:
        button = QPushButton(title)
        button.setProperty("link", True)
        button.clicked.connect(lambda: act())
        self._buttons.addWidget(button)


class _Crashes(QObject):
    """Carries a report from any thread to the window's."""

    happened = Signal(str, object)


CRASHES = _Crashes()


def crash_report(error: BaseException) -> Path:
    """Write what happened to a file and return it; keeps the last few."""
    folder = data_folder("crashes")
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    head = [f"Espalier crash report, {time.strftime('%Y-%m-%d %H:%M:%S')}",
            f"Python {platform.python_version()}, {platform.platform()}", *_versions(), ""]  # fmt: skip
    write_private(path, redacted("\n".join(head) + "".join(traceback.format_exception(error))))
    for old in sorted(folder.glob("crash-*.txt"))[:-KEPT_REPORTS]:
        old.unlink(missing_ok=True)
    return path


def _versions() -> list[str]:
    loaded = ("PySide6", "numpy", "pyqtgraph", "torch", "transformers")
    return [f"{n} {getattr(sys.modules[n], '__version__', '?')}" for n in loaded if n in sys.modules]


def install_hooks() -> None:
    """Let every exception that nobody caught end in a report and a banner, never in a silent exit."""
    sys.excepthook = _hook
    threading.excepthook = lambda args: _hook(args.exc_type, args.exc_value, args.exc_traceback)


def _hook(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is None or issubclass(kind, KeyboardInterrupt | SystemExit):
        sys.__excepthook__(kind, error or kind(), trace)
        return
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))
    if isinstance(error, EspalierError):
        CRASHES.happened.emit("", error)
        return
    try:
        path = str(crash_report(error))
    except (OSError, EspalierError):
        path = ""
    CRASHES.happened.emit(path, error)


def show_crash(banner: Banner, path: str, error: BaseException) -> None:
    """Tell of a bug. A document is whole, as every edit is a value that is swapped at the end; but whether the last one
    was made before the bug is not known."""
    if isinstance(error, EspalierError):
        banner.error(error)
        return
    hint = "See whether the last edit is there, and undo it where it is not as meant."
    hint += f" The report is in {path}." if path else ""
    open_it: list[Button] = [("Open report", lambda: open_file(path))] if path else []
    what = redacted(f"{type(error).__name__}: {error}")
    banner.tell(f"Something went wrong inside Espalier: {what}", hint, open_it, "error")


def open_file(path: str | Path) -> None:
    """Open a file or folder in the desktop's own program."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
