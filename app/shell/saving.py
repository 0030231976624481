"""Saving and closing the document: unsaved changes are asked about before they are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from espalier.model.opening import is_project
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, SaveJob

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.ownership import Ownership

Then = Callable[[], object]


class Saving(QObject):
    """Of one window's document."""

    def __init__(self, parent: QWidget, session: Session, ownership: Ownership, dialogs: Dialogs) -> None:
        super().__init__(parent)
        self._parent, self._session, self._ownership, self._dialogs = parent, session, ownership, dialogs
        self._then: Then | None = None  # what waits for a save
        session.saved.connect(self._saved)
        session.job_event.connect(self._heard)
        ownership.save_wanted.connect(self.save)
        ownership.save_as_wanted.connect(self.save_as)

    def unsaved(self) -> bool:
        """Whether edits would be lost with the document: not saved, or not yet done by the worker."""
        document = self._session.document
        return document is not None and (document.dirty or bool(self._session.waiting))

    def guard(self, then: Then) -> None:
        """Do `then` once nothing unsaved would be lost: at once, or after Save or Discard."""
        document = self._session.document
        if document is None or not self.unsaved():
            then()
            return
        name, waiting = document.path.name if document.path else document.project.source.name, self._session.waiting
        undone = f"{', '.join(waiting)} is not done yet, and is lost if you go on." if waiting else ""
        buttons = QMessageBox.StandardButton
        box = QMessageBox(self._parent)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("Espalier")
        if document.dirty:
            box.setText(f"Save the changes to {name}?")
            box.setInformativeText(f"Otherwise they are lost. {undone}".strip())
            box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
            box.setDefaultButton(buttons.Save)
        else:
            box.setText(f"Leave {name} while the worker is at it?")
            box.setInformativeText(undone)
            box.setStandardButtons(buttons.Discard | buttons.Cancel)
            box.setDefaultButton(buttons.Cancel)
        box.buttonClicked.connect(lambda b: self._answered(box.standardButton(b), then))
        box.open()

    def _answered(self, answer: QMessageBox.StandardButton, then: Then) -> None:
        if answer == QMessageBox.StandardButton.Discard:
            then()
        elif answer == QMessageBox.StandardButton.Save:
            self._then = then
            self.save()

    def save(self) -> None:
        """Save to the project's file; the first time ask for one."""
        document = self._session.document
        if document is None or document.path is None:
            self.save_as()
        elif self._ownership.free(document.path):
            self._session.save()
        else:
            self.forget_then()

    def forget_then(self) -> None:
        """Do not go on with what waited for a save: there was none."""
        self._then = None

    def _heard(self, ended: JobEvent) -> None:
        """A save that did not come about takes what waited for it along: a later one is not to close the window."""
        save = ended.job.job
        failed = isinstance(ended.event, TERMINAL) and not isinstance(ended.event, Done)
        if failed and isinstance(save, SaveJob) and not save.copy:
            self.forget_then()

    def save_as(self) -> None:
        """Choose a file and save to it."""
        document = self._session.document
        if document is None:
            return
        name = document.path.name if document.path else f"{_word(document.project.source.name)}.espalier"
        dialog = self._dialogs.ask_path("Save as", lambda p: self._save_to(_project(p)), save=True,
                           names="Espalier projects (*.espalier)", suggestion=name)  # fmt: skip
        dialog.rejected.connect(lambda: self.forget_then())

    def _save_to(self, path: Path) -> None:
        if self._ownership.free(path):
            self._session.save_as(path)
        else:
            self.forget_then()

    def close(self) -> None:
        """Close the document."""
        self.guard(self._session.close)

    def _saved(self) -> None:
        document = self._session.document
        if self._then and document and not document.dirty:
            then, self._then = self._then, None
            then()


def _project(path: Path) -> Path:
    return path if is_project(path.name) else path.with_name(path.name + ".espalier")


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"
