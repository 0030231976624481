"""The only place that shows errors: a non-blocking banner, and a report file for bugs.

Errors that a user can correct are EspalierErrors (message, hint, node); any other exception is a bug and is reported.
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

from PySide6.QtCore import QEvent, QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from espalier.app.measured.live import is_evaluation
from espalier.app.settings import data_folder
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import column_of
from espalier.model.errors import EspalierError, JobError, PassError
from espalier.model.files import write_private
from espalier.model.private import redacted
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, JobInfo, ReplayJob, Started

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_REPORTS = 20
WIDTH, MARGIN, LOWEST = 520, 12, 30  # pixels of the banner: width, distance from the edges, the line that stays free
EDIT = "edit"  # the cause of errors of an edit
PLUGINS = "plug-ins"
Button = tuple[str, Callable[[], object]]


def cause(job: JobInfo) -> str:
    """The cause of a job's error; the error is resolved when a job of the same cause starts or succeeds."""
    return EDIT if isinstance(job.job, ReplayJob) and not job.job.beside else job.title


class PluginsError(PassError):
    """Plug-ins that could not be loaded; resolved when plug-ins are loaded again."""


def cause_of(error: EspalierError) -> str:
    """The cause of an error that is not of a job."""
    return PLUGINS if isinstance(error, PluginsError) else EDIT


class Banner(QFrame):
    """One message with a hint and buttons.

    A new message replaces the old one; an offer is shown again when the message that replaced it is dismissed.
    """

    show_node = Signal(str)
    show_log = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._message, self._hint = QLabel(wordWrap=True), QLabel(wordWrap=True)
        self._message.setProperty("role", "strong")
        self._hint.setProperty("role", "muted")
        for label in (self._message, self._hint):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        texts = column_of(2)
        texts.addWidget(self._message)
        texts.addWidget(self._hint)
        self._buttons = FlowLayout(spacing=4)  # wraps
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 10, 6)
        column.setSpacing(6)
        column.addLayout(texts)
        column.addLayout(self._buttons)
        self.setAccessibleName(tr("Message"))
        self._cause, self._warning = "", ""
        self._unassigned: JobError | None = None  # the error shown, until the event of its job arrives
        self._offer: tuple[str, str, list[Button]] | None = None
        self._shows_offer = False
        self.hide()

    def float_over(self, parent: QWidget) -> None:
        """Show messages over the lower right corner of a widget, so that none of its controls moves."""
        self.setParent(parent)
        parent.installEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the corner of the parent."""
        if event.type() == QEvent.Type.Resize:
            self._place()
        return False

    def _place(self) -> None:
        """In the corner, above the lowest line of the parent; as high as its texts need."""
        parent = self.parentWidget()
        if parent is None or self.isHidden():
            return
        width = min(WIDTH, parent.width() - 2 * MARGIN)
        height = min(self.heightForWidth(width), parent.height() - MARGIN)
        self.setGeometry(
            parent.width() - width - MARGIN, max(0, parent.height() - height - MARGIN - LOWEST), width, height
        )
        self.raise_()

    @property
    def text(self) -> str:
        """The text of the message and its hint; empty if hidden."""
        return f"{self._message.text()} {self._hint.text()}".strip() if not self.isHidden() else ""

    def show_error(self, error: EspalierError) -> None:
        """Show an error and its hint, with a button for its node or for the log of its job."""
        node = error.node
        buttons: list[Button] = [(tr("Show node"), lambda: self.show_node.emit(node))] if node else []
        if isinstance(error, JobError):
            buttons.append((tr("Show log"), self.show_log.emit))
        self.show_message(message(error.message), message(error.hint), buttons, "error")
        self._unassigned, self._cause = (error, "") if isinstance(error, JobError) else (None, cause_of(error))

    def follow(self, session: Session) -> None:
        """Show the errors and warnings of a session until they are resolved."""
        session.problem.connect(self.show_error)
        session.noticed.connect(self.show_message)
        session.resolved.connect(self.resolve)
        session.job_event.connect(self.job_event)
        session.changed.connect(lambda _: self.resolve(EDIT))
        session.opened.connect(lambda: self._warn(""))

    def job_event(self, event: JobEvent) -> None:
        """Assign the shown error to its job; hide it when a job of the same cause starts."""
        if isinstance(event.event, Failed):
            error = self._unassigned
            if error and (error.message, error.hint) == (event.event.message, event.event.hint):
                self._unassigned, self._cause = None, cause(event.job)
        elif isinstance(event.event, Started):
            self.resolve(cause(event.job))
        elif isinstance(event.event, Done) and is_evaluation(event.job):
            self._warn(str(event.event.result.summary.get("warning", "")))

    def _warn(self, text: str) -> None:
        """Show a warning about the data once, although each edit measures on them again; empty hides it."""
        if text and text != self._warning:
            self.show_message(message(text))
        elif not text and message(self._warning) == self._message.text():
            self.dismiss()
        self._warning = text

    def resolve(self, resolved: str) -> None:
        """Hide the error if it has this cause."""
        if resolved == self._cause:
            self._cause = ""
            self.dismiss()

    def offer(self, message: str, hint: str, buttons: list[Button]) -> None:
        """Show a message that stays until it is dismissed or dropped; other messages only cover it."""
        self.show_message(message, hint, buttons)
        self._offer, self._shows_offer = (message, hint, buttons), True

    def dismiss(self) -> None:
        """Hide the message, and show the offer that it covered. Does nothing while an offer is shown."""
        if self._shows_offer:
            return
        self.hide()
        if self._offer is not None:
            self.offer(*self._offer)

    def drop_offer(self) -> None:
        """Remove the offer, because it was answered."""
        self._offer = None
        if self._shows_offer:
            self.clear()

    def clear(self) -> None:
        """Hide the message and remove the offer."""
        self._offer, self._shows_offer = None, False
        self.hide()

    def show_message(
        self, message: str, hint: str = "", buttons: list[Button] | None = None, kind: str = "note"
    ) -> None:
        """Show a message with buttons and Dismiss. `kind`: "note" or "error"."""
        self._cause, self._unassigned, self._shows_offer = "", None, False
        self._message.setText(message)
        self._hint.setText(hint)
        self._hint.setVisible(bool(hint))
        while item := self._buttons.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        for title, act in buttons or []:
            self._button(title, lambda act=act: (self.dismiss(), act()))
        self._button(tr("Dismiss"), lambda: self.drop_offer() if self._shows_offer else self.dismiss())
        self.setProperty("banner", kind)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()
        self._place()

    def _button(self, title: str, act: Callable[[], object]) -> None:
        button = QPushButton(title)
        button.setProperty("link", True)
        button.clicked.connect(lambda: act())
        self._buttons.addWidget(button)
        button.show()  # at once: the banner takes the height that it needs


class _Crashes(QObject):
    """Signals a crash from any thread to the window's thread."""

    happened = Signal(str, object)


CRASHES = _Crashes()


def crash_report(error: BaseException) -> Path:
    """Write a crash report and return its path; deletes all but the last MAX_REPORTS."""
    folder = data_folder("crashes")
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    head = [f"Espalier crash report, {time.strftime('%Y-%m-%d %H:%M:%S')}",
            f"Python {platform.python_version()}, {platform.platform()}", *_versions(), ""]  # fmt: skip
    write_private(path, redacted("\n".join(head) + "".join(traceback.format_exception(error))))
    for old in sorted(folder.glob("crash-*.txt"))[:-MAX_REPORTS]:
        old.unlink(missing_ok=True)
    return path


def _versions() -> list[str]:
    packages = ("PySide6", "numpy", "pyqtgraph", "torch", "transformers")
    return [f"{n} {getattr(sys.modules[n], '__version__', '?')}" for n in packages if n in sys.modules]


def install_hooks() -> None:
    """Report every uncaught exception of any thread in a file and the banner."""
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
    """Show a bug. The document is consistent, as an edit replaces its state at the end; the last edit may be lost."""
    if isinstance(error, EspalierError):
        banner.show_error(error)
        return
    hint = tr("Check the last edit, and undo it if it is wrong.")
    hint += tr(" The report is in {}.", path) if path else ""
    buttons: list[Button] = [(tr("Open report"), lambda: open_file(path))] if path else []
    what = redacted(f"{type(error).__name__}: {error}")
    banner.show_message(tr("An internal error occurred: {}", what), hint, buttons, "error")


def open_file(path: str | Path) -> None:
    """Open a file or folder in the desktop's own program."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
