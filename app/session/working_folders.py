"""Working folders of a session's documents: one per document, deleted when no job uses it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.leftovers import WINDOW, Scratch
from espalier.passes.jobs.kinds import Job, SaveJob
from espalier.passes.training.checkpoint_folders import note_copied


class WorkingFolders(QObject):
    """Creates and deletes the folders. `clearing`: emitted when `clear` should be called, after the pending events."""

    clearing = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._folders: dict[Path, Scratch] = {}
        self._clear_timer = QTimer(self, singleShot=True)
        self._clear_timer.timeout.connect(self.clearing)

    def new(self) -> Path:
        """Create the folder of a document."""
        scratch = Scratch(WINDOW)
        self._folders[scratch.folder] = scratch
        return scratch.folder

    def clear_soon(self) -> None:
        """Emit `clearing` after the pending events: the folder of a document that is just opening is not in use yet."""
        self._clear_timer.start()

    def clear(self, jobs: Iterable[Job], present: Path | None) -> None:
        """Delete the folders that neither a job nor the document, in `present`, uses."""
        used = {f for job in jobs for f in (_workdir(job), *_workdir(job).parents)}
        for folder in self._folders.keys() - used - {present}:
            # In a thread: a folder may hold gigabytes.
            threading.Thread(target=self._folders.pop(folder).close, name="espalier-clearing").start()

    def discard_unsaved(self) -> None:
        """Mark all checkpoints as saved, so that none is kept for a later session."""
        self._clear_timer.stop()
        for folder in self._folders:
            note_copied(folder, math.inf)

    def end(self) -> None:
        """Delete all folders."""
        for folder in self._folders.values():
            folder.close()


def _workdir(job: Job) -> Path:
    """The working folder that a job reads or writes; Path() if it has none."""
    return job.store.folder if isinstance(job, SaveJob) else getattr(job, "workdir", Path())
