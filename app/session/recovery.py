"""Recovery after a crash: a journal of the edits and copies of the project, offered by the next window."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.app.locks import Locked, take
from espalier.app.number_text import moment, plural
from espalier.app.session.edit_journal import ENDING, EditJournal, Subject, UnsavedEdits, read
from espalier.app.settings import data_folder
from espalier.app.translation import tr
from espalier.model.document.arrangement import Arrangement
from espalier.model.document.document import Document, State
from espalier.model.document.recipe import Recipe
from espalier.model.errors import FileError
from espalier.model.store.open_files import FileId, Version
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, JobEvent, JobInfo, OpenJob, SaveJob, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

# A copy is written COPY_FACTOR times as long after an edit as writing it took, within these limits in seconds.
MIN_DELAY, MAX_DELAY, COPY_FACTOR = 1.0, 30.0, 20
MERGE_INTERVAL = 200  # milliseconds in which consecutive edits become one line of the journal,
QUICK = 0.002  # unless writing a line takes less than this, in seconds


@dataclass(frozen=True, slots=True)
class UnsavedProject:
    """Unsaved work of a crashed window. `file`: the copy, which may not exist; `edits`: read from the journal."""

    file: Path
    journal: Path
    edits: UnsavedEdits

    @property
    def title(self) -> str:
        """The title of the document."""
        return self.edits.subject.title

    @property
    def summary(self) -> str:
        """What it contains and what of it cannot be read, as a phrase."""
        edits = self.edits
        if not edits.count:
            content = tr("a copy of the project without the edits after it") if self.file.exists() else tr("nothing")
            return tr("{}, because {} is damaged", content, self.journal.name)
        queued = tr("; still queued: {}", ", ".join(edits.waiting)) if edits.waiting else ""
        damaged = tr("; {} of its journal could not be read", plural(edits.damaged, "line")) if edits.damaged else ""
        return tr(
            "{}, the last at {}: {}{}{}", plural(edits.count, "edit"), moment(edits.when), edits.label, queued, damaged
        )

    @property
    def opens(self) -> bool:
        """Whether it can be opened."""
        return self.file.exists() or bool(self.edits.count and self.edits.subject.opened)


def title_of(document: Document) -> str:
    """The title under which the unsaved work on a document is offered."""
    return document.path.name if document.path else document.project.source.name


def is_copy(job: JobInfo) -> bool:
    """Whether a job writes a recovery copy, which is not shown to the user."""
    return isinstance(job.job, SaveJob) and job.job.copy


def unsaved_projects() -> list[UnsavedProject]:
    """The unsaved work of crashed windows, newest first; deletes copies without a journal."""
    folder, projects = data_folder("recovery"), list[UnsavedProject]()
    for file in folder.glob("*.espalier"):
        if not (folder / f"{file.name.partition('.')[0]}{ENDING}").exists():
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
    for journal in folder.glob(f"*{ENDING}"):
        with contextlib.suppress(OSError):
            if (lock := take(journal)) and (project := _read(journal)):
                projects.append(project)
            del lock
    return sorted(projects, key=lambda project: project.edits.when, reverse=True)


def _read(journal: Path) -> UnsavedProject | None:
    edits = read(journal)
    if edits is None or (not edits.count and journal.read_bytes().count(b"\n") <= 1):
        journal.unlink(missing_ok=True)  # its window crashed before the first edit was written
        return None
    return UnsavedProject(journal.with_suffix(".espalier"), journal, edits)


def _read_name(file: Path) -> Path:
    """The name under which a copy is read during recovery, because new copies replace the file."""
    return file.with_suffix(f".read{file.suffix}")


def is_of(unsaved: UnsavedProject, document: Document) -> bool:
    """Whether unsaved work is of this document: same title, path and source."""
    subject, path = unsaved.edits.subject, str(document.path or "")
    return (subject.title, subject.path, subject.source) == (title_of(document), path, document.project.source.spec)


def discard(unsaved: UnsavedProject) -> bool:
    """Delete unsaved work; returns False if it no longer exists or another window has recovered it."""
    lock = take(unsaved.journal)
    if lock is None:
        return False
    _delete(unsaved)
    lock.release()
    return True


def _delete(unsaved: UnsavedProject) -> None:
    for path in (unsaved.journal, unsaved.file, _read_name(unsaved.file)):
        path.unlink(missing_ok=True)


class Recovery(QObject):
    """Stores the unsaved work of a window: each edit as a line of a journal, and at times the project as a copy.

    The copy also holds trained weights, searches and measurements, which the journal does not.
    """

    def __init__(self, session: Session, folder: Path | None = None) -> None:
        super().__init__(session)
        self._session = session
        self.journal = EditJournal(folder or data_folder("recovery"))
        self.file = self.journal.path.with_suffix(".espalier")
        self._copied: tuple[State, dict[str, bytes]] | None = None  # the state of the last copy
        self._written: tuple[Recipe, tuple[str, ...], Arrangement] | None = None  # the last edit in the journal
        self._recovering: tuple[UnsavedProject, Locked] | None = None  # until its document is open
        self._recovered: UnsavedProject | None = None  # what the open document was recovered from
        self._reported_failure = ""  # of the journal
        self._copy_job: JobInfo | None = None
        self._copy_started = self._copy_seconds = 0.0
        self._merge_timer = QTimer(self, interval=MERGE_INTERVAL, singleShot=True)
        self._merge_timer.timeout.connect(self._write_edit)
        self._copy_timer = QTimer(self, singleShot=True)
        self._copy_timer.timeout.connect(self.write_copy)
        session.changed.connect(self.update)
        session.arranged.connect(self.update)
        session.pending_changed.connect(self.update)
        session.saved.connect(self._saved)
        session.opened.connect(self._opened)
        session.job_event.connect(self._job_event)
        session.placing = lambda version: self.journal.note_version(_as_text(version))

    @property
    def recovered(self) -> bool:
        """Whether the open document was recovered from a crashed window."""
        return self._recovered is not None

    @property
    def source(self) -> str:
        """The path or source by which the open document is opened again; a recovery copy is deleted with it."""
        document = self._session.open_document
        return str(document.path or (document.project.source.spec if self.recovered else self._session.opened_spec))

    def update(self) -> None:
        """Store the unsaved work; delete the stored work if nothing is unsaved."""
        document = self._session.document
        if document is None or not (document.dirty or self._session.pending_edits):
            self.clear()
            return
        # Of consecutive edits that are slow to write, the first is written at once and the last after a pause.
        if not self._merge_timer.isActive() or self.journal.cost < QUICK:
            self._write_edit()
            self._merge_timer.start()
        self._schedule_copy(document)

    def _saved(self) -> None:
        """Begin the journal again for edits that are still queued: they follow the version that was just saved."""
        self.update()
        if self._written is not None:
            self._written = None
            self._write_edit()

    def _write_edit(self) -> None:
        """Write the present recipe, the queued edits, pins and frames to the journal."""
        document = self._session.document
        if document is None:
            return
        edit = self._session.recipe, self._session.pending_edits, document.arrangement
        if self._written is None:
            self.journal.begin(self._subject(document))
        if edit != self._written:
            label = edit[1][-1] if edit[1] else document.undo_label or tr("new results of analyses, without an edit")
            self.journal.edit(label, *edit)
            self._written = None if self.journal.failed else edit
            self._report_failure()

    def _report_failure(self) -> None:
        """Report a failure of the journal once; again after edits that were written."""
        failure = self.journal.failed
        if failure and failure != self._reported_failure:
            message = tr("Unsaved edits cannot be stored for recovery ({}).", failure)
            self._session.problem.emit(FileError(message, "Free some space, or save the project now."))
        self._reported_failure = failure

    def _subject(self, document: Document) -> Subject:
        opened = self._recovered.edits.subject.opened if self._recovered else self._session.opened_spec
        path, source = str(document.path or ""), document.project.source.spec
        return Subject(title_of(document), path, source, opened, _as_text(document.version))

    def _schedule_copy(self, document: Document) -> None:
        """Write a copy after a delay that grows with the time that writing takes."""
        due = self._copied != (document.present, document.project.extras) and document.dirty
        if due and not self._copy_job and not self._copy_timer.isActive():
            seconds = min(MAX_DELAY, max(MIN_DELAY, COPY_FACTOR * self._copy_seconds))
            self._copy_timer.start(int(1000 * seconds))

    def write_copy(self) -> None:
        """Write the copy now, unless it holds the present state."""
        document = self._session.document
        if document is None or not document.dirty or self._copy_job:
            return
        state = document.present, document.project.extras
        if self._copied == state:
            return
        self._write_edit()
        self._copy_started, self._copied = time.monotonic(), state
        self._copy_job = self._session.save_as(self.file, copy=True)

    def _job_event(self, event: JobEvent) -> None:
        spec = event.job.job.spec if isinstance(event.job.job, OpenJob) else None
        if self._recovering and isinstance(event.event, Failed | Stopped) and spec in _specs(self._recovering[0]):
            self._recovering[1].release()  # so that it can be recovered again, here or in another window
            self._recovering = None
        if event.job is not self._copy_job or not isinstance(event.event, TERMINAL):
            return
        self._copy_job, self._copy_seconds = None, time.monotonic() - self._copy_started
        if not isinstance(event.event, Done):
            self._copied = None
        elif self._written is None:  # nothing is unsaved any more
            self.file.unlink(missing_ok=True)
        elif self.journal.long:
            self._written = None
            self._write_edit()
        if (document := self._session.document) is not None:
            self._schedule_copy(document)

    def clear(self) -> None:
        """Delete the journal and the copy, because nothing is unsaved."""
        self._copy_timer.stop()
        self._merge_timer.stop()
        self._copied = self._written = None
        self.journal.delete()
        if self._copy_job:
            self._session.cancel(self._copy_job.id)
        self.file.unlink(missing_ok=True)

    def end(self) -> None:
        """Delete all files, also those that the document was recovered from, because the document is closed."""
        self.clear()
        if self._recovered:
            _delete(self._recovered)
        self._recovered = None

    def recover(self, unsaved: UnsavedProject) -> bool:
        """Open unsaved work; returns False if another window has taken it."""
        lock = take(unsaved.journal)
        if lock is None:
            return False
        unsaved = _read(unsaved.journal) or unsaved  # plug-ins may have been loaded since it was read
        self._recovering = unsaved, lock
        spec = str(_linked_copy(unsaved.file)) if unsaved.file.exists() else unsaved.edits.subject.opened
        self._session.open(spec, title=f"Recover {unsaved.title}")
        return True

    def _opened(self) -> None:
        self.end()
        document, recovering = self._session.document, self._recovering
        if document is None or recovering is None:
            return
        unsaved, lock = recovering
        subject, edits = unsaved.edits.subject, unsaved.edits
        *copies, _ = specs = _specs(unsaved)
        if self._session.opened_spec not in specs:
            return  # another model, which was requested before
        self._recovering = None
        self._adopt(unsaved, lock, document.arrangement)
        if self._session.opened_spec in copies:
            extras = {"": b""}  # differs from those of the document, so that recovered studies count as unsaved
            document.saved(unsaved.file, State(Recipe(), document.project.base), extras)
            document.path, document.version = Path(subject.path) if subject.path else None, version_of(edits)
        if edits.count and self._session.recipe != edits.recipe:
            self._session.set_recipe(edits.recipe, tr("Recover edits"))
        if edits.arrangement not in (None, document.arrangement):
            self._session.arrange(edits.arrangement, tr("Recover pins and frames"))
        self.update()

    def _adopt(self, unsaved: UnsavedProject, lock: Locked, arrangement: Arrangement) -> None:
        """Continue its journal and its copy, so that the work is stored exactly once at any time.

        `arrangement`: of its copy, for a journal without one.
        """
        edits = unsaved.edits
        self._recovered, self.file = unsaved, unsaved.file
        self.journal.adopt(lock)
        written = (edits.recipe, edits.waiting, arrangement if edits.arrangement is None else edits.arrangement)
        self._written = written if edits.count else None


def _specs(unsaved: UnsavedProject) -> tuple[str, str, str]:
    """The sources that it may be opened from: its copy under either name, or the original."""
    return str(unsaved.file), str(_read_name(unsaved.file)), unsaved.edits.subject.opened


def _linked_copy(file: Path) -> Path:
    """A second link of a copy, which stays when a newer copy replaces it; the file itself without hard links."""
    link = _read_name(file)
    link.unlink(missing_ok=True)
    try:
        os.link(file, link)
    except OSError:
        return file
    return link


def version_of(edits: UnsavedEdits) -> Version | None:
    """The version of the file that the edits follow; None if unknown.

    If the window crashed after one of its saves replaced the file, it is the version that this save wrote.
    """
    current = Version.of(Path(edits.subject.path)) if edits.subject.path else None
    return current if current and _as_text(current) in edits.versions else _from_text(edits.subject.version)


def _as_text(version: Version | None) -> str:
    facts = (version.file.device, version.file.inode, version.size, version.time) if version else ()
    return " ".join(map(str, facts))


def _from_text(text: str) -> Version | None:
    with contextlib.suppress(ValueError):
        device, inode, size, when = map(int, text.split())
        return Version(FileId(device, inode), size, when)
    return None
