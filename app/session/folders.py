"""Working folders of a session's documents: made for each, deleted when nothing needs them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.leftovers import WINDOW, Scratch
from espalier.passes.jobs.kinds import Job, SaveJob
from espalier.passes.training.checkpoint_folders import note_copied


class Folders(QObject):
    """`clearing`: the moment to call `clear`; a document may be about to arrive, whose folder is nobody's yet."""

    clearing = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._folders: dict[Path, Scratch] = {}
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self.clearing)

    def new(self) -> Path:
        """A folder for a document."""
        made = Scratch(WINDOW)
        self._folders[made.folder] = made
        return made.folder

    def clear_soon(self) -> None:
        """Once what happens now is over."""
        self._soon.start()

    def clear(self, jobs: Iterable[Job], present: Path | None) -> None:
        """Delete the folders that neither the document, in `present`, nor a job needs any more."""
        used = {f for job in jobs for f in (_workdir(job), *_workdir(job).parents)}
        for folder in self._folders.keys() - used - {present}:
            # It may hold gigabytes, and nobody waits for it.
            threading.Thread(target=self._folders.pop(folder).close, name="espalier-clearing").start()

    def forgo(self) -> None:
        """What was not saved is not wanted: the session ends."""
        self._soon.stop()
        for folder in self._folders:
            note_copied(folder, math.inf)

    def end(self) -> None:
        """Delete all."""
        for folder in self._folders.values():
            folder.close()


def _workdir(job: Job) -> Path:
    """The working folder that a job reads or writes; the present one for those without."""
    return job.store.folder if isinstance(job, SaveJob) else getattr(job, "workdir", Path())
