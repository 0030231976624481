"""Working folders of a session's documents: one per document, deleted when no job uses it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.leftovers import WINDOW, Scratch
from espalier.passes.jobs.kinds import Job, SaveJob
from espalier.passes.training.checkpoint_folders import clear_finished


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
            _in_thread(partial(_close, self._folders.pop(folder)))

    def note_copied(self, folder: Path, begun: float) -> None:
        """A copy of this folder's document, begun at `begun` by time.monotonic, is complete."""
        _in_thread(partial(clear_finished, folder, begun))

    def end(self) -> None:
        """Delete all folders, after the workers: what was not saved is not wanted by a later session."""
        self._clear_timer.stop()
        for scratch in self._folders.values():
            _close(scratch)


def _in_thread(delete: Callable[[], object]) -> None:
    """A folder may hold gigabytes."""
    threading.Thread(target=delete, name="espalier-clearing").start()


def _close(scratch: Scratch) -> None:
    """Delete the folder of a closed document, and the checkpoints of its finished trainings."""
    clear_finished(scratch.folder, math.inf)
    scratch.close()


def _workdir(job: Job) -> Path:
    """The working folder that a job reads or writes; Path() if it has none."""
    return job.store.folder if isinstance(job, SaveJob) else getattr(job, "workdir", Path())
