"""Saving and closing the document; asks before unsaved changes are lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from espalier.app.jobs.status import can_keep
from espalier.app.translation import tr
from espalier.model.opening import is_project
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, SaveJob

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.ownership import Ownership

Continuation = Callable[[], object]


class Saving(QObject):
    """Saves and closes the document of one window."""

    def __init__(self, parent: QWidget, session: Session, ownership: Ownership, dialogs: Dialogs) -> None:
        super().__init__(parent)
        self._parent, self._session, self._ownership, self._dialogs = parent, session, ownership, dialogs
        self._continuation: Continuation | None = None  # called after the next successful save
        session.saved.connect(self._saved)
        session.job_event.connect(self._job_event)
        ownership.save_wanted.connect(self.save)
        ownership.save_as_wanted.connect(self.save_as)

    def unsaved(self) -> bool:
        """Whether closing the document would lose edits: unsaved ones, or ones that the worker has not run."""
        document = self._session.document
        return document is not None and (document.dirty or bool(self._session.pending_edits))

    def guard(self, then: Continuation) -> None:
        """Call `then` if nothing is unsaved; otherwise ask, and call it after Save or Discard."""
        document = self._session.document
        if document is None or not self.unsaved():
            then()
            return
        name, queued = (
            document.path.name if document.path else document.project.source.name,
            self._session.pending_edits,
        )
        warning = self._unfinished(queued)
        buttons = QMessageBox.StandardButton
        box = QMessageBox(self._parent)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("Espalier")
        if document.dirty:
            box.setText(tr("Save the changes to {}?", name))
            box.setInformativeText(tr("Otherwise they are lost. {}", warning).strip())
            box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
            box.setDefaultButton(buttons.Save)
        else:
            box.setText(tr("Close {} while edits are running?", name))
            box.setInformativeText(warning)
            box.setStandardButtons(buttons.Discard | buttons.Cancel)
            box.setDefaultButton(buttons.Cancel)
        box.buttonClicked.connect(lambda b: self._answered(box.standardButton(b), then))
        box.open()

    def _unfinished(self, queued: Sequence[str]) -> str:
        """What is said of edits that have not ended; empty if there are none."""
        if not queued:
            return ""
        keeps = [j for j in self._session.jobs if can_keep(j)]
        hint = tr(" “Stop and keep” in the Jobs panel keeps the best weights so far.") if keeps else ""
        return tr("Edits that are not finished are lost: {}.{}", ", ".join(queued), hint)

    def _answered(self, answer: QMessageBox.StandardButton, then: Continuation) -> None:
        if answer == QMessageBox.StandardButton.Discard:
            then()
        elif answer == QMessageBox.StandardButton.Save:
            self._continuation = then
            self.save()

    def save(self) -> None:
        """Save to the project's file; ask for one if it has none."""
        document = self._session.document
        if document is None or document.path is None:
            self.save_as()
        elif self._ownership.may_write(document.path):
            self._session.save()
        else:
            self.cancel_continuation()

    def cancel_continuation(self) -> None:
        """Drop the call that waits for a save, because the save was cancelled or failed."""
        self._continuation = None

    def _job_event(self, event: JobEvent) -> None:
        """Cancel the continuation of a failed save: a later save must not close the window."""
        save = event.job.job
        failed = isinstance(event.event, TERMINAL) and not isinstance(event.event, Done)
        if failed and isinstance(save, SaveJob) and not save.copy:
            self.cancel_continuation()

    def save_as(self) -> None:
        """Ask for a file and save to it."""
        document = self._session.document
        if document is None:
            return
        name = document.path.name if document.path else f"{_file_name(document.project.source.name)}.espalier"
        dialog = self._dialogs.ask_path(tr("Save as"), lambda p: self._save_to(_with_suffix(p)), save=True,
                           names=tr("Espalier projects (*.espalier)"), suggestion=name)  # fmt: skip
        dialog.rejected.connect(lambda: self.cancel_continuation())

    def _save_to(self, path: Path) -> None:
        if self._ownership.may_write(path):
            self._session.save_as(path)
        else:
            self.cancel_continuation()

    def close(self) -> None:
        """Close the document, after asking about unsaved changes."""
        self.guard(self._session.close)

    def _saved(self) -> None:
        document = self._session.document
        if self._continuation and document and not document.dirty:
            continuation, self._continuation = self._continuation, None
            continuation()


def _with_suffix(path: Path) -> Path:
    return path if is_project(path.name) else path.with_name(path.name + ".espalier")


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "model"
