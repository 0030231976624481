"""What outlives a killed window: a journal of the edits, and copies of the project; both are offered afterwards."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.app.locks import Locked, take
from espalier.app.session.edit_journal import ENDING, EditJournal, Edits, Subject, read
from espalier.app.settings import data_folder
from espalier.app.words import moment, plural
from espalier.model.document.document import Document, State
from espalier.model.document.recipe import Recipe
from espalier.model.errors import FileError
from espalier.model.store.open_files import FileId, Version
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, JobEvent, JobInfo, OpenJob, SaveJob, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SOON, SELDOM, SHARE = 1.0, 30.0, 20  # seconds until a copy is written, and how many times as long as writing it takes
PEN, QUICK = 200, 0.002  # milliseconds in which edits in a row become one line, where that takes longer: seconds


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a window that is gone left behind. `file`: the copy, which may not be there yet; `edits`: of the journal."""

    file: Path
    journal: Path
    edits: Edits

    @property
    def title(self) -> str:
        """What it is unsaved work on."""
        return self.edits.subject.title

    @property
    def holds(self) -> str:
        """What is in it, in words, and what of it cannot be read."""
        edits = self.edits
        if not edits.count:
            rest = "a copy of the project without the edits after it" if self.file.exists() else "nothing"
            return f"{rest}, as {self.journal.name} is damaged"
        waits = f"; not done yet: {', '.join(edits.waiting)}" if edits.waiting else ""
        lost = f"; {plural(edits.damaged, 'line')} of its journal could not be read" if edits.damaged else ""
        return f"{plural(edits.count, 'edit')}, the last at {moment(edits.when)}: {edits.label}{waits}{lost}"

    @property
    def opens(self) -> bool:
        """Whether there is anything that can be opened."""
        return self.file.exists() or bool(self.edits.count and self.edits.subject.opened)


def title_of(document: Document) -> str:
    """By what name a copy of it is offered."""
    return document.path.name if document.path else document.project.source.name


def is_copy(job: JobInfo) -> bool:
    """Whether a job only writes such a copy, which is nobody's business while it works."""
    return isinstance(job.job, SaveJob) and job.job.copy


def leftovers() -> list[Leftover]:
    """What windows that no longer live left, newest first; copies without a journal are deleted."""
    folder, found = data_folder("recovery"), list[Leftover]()
    for file in folder.glob("*.espalier"):
        if not (folder / f"{file.name.partition('.')[0]}{ENDING}").exists():
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
    for journal in folder.glob(f"*{ENDING}"):
        with contextlib.suppress(OSError):
            if (held := take(journal)) and (left := _read(journal)):
                found.append(left)
            del held
    return sorted(found, key=lambda left: left.edits.when, reverse=True)


def _read(journal: Path) -> Leftover | None:
    edits = read(journal)
    if edits is None or (not edits.count and journal.read_bytes().count(b"\n") <= 1):
        journal.unlink(missing_ok=True)  # its window died before the first edit was in it
        return None
    return Leftover(journal.with_suffix(".espalier"), journal, edits)


def _base(file: Path) -> Path:
    """By what name a copy is read that is recovered: the copies after it take its own name."""
    return file.with_suffix(f".read{file.suffix}")


def holds(leftover: Leftover, document: Document) -> bool:
    """Whether it is of this model: sources in two places may have one name."""
    subject, path = leftover.edits.subject, str(document.path or "")
    return (subject.title, subject.path, subject.source) == (title_of(document), path, document.project.source.spec)


def discard(leftover: Leftover) -> bool:
    """Delete it; False where it is gone, or another window has it by now and goes on with it."""
    held = take(leftover.journal)
    if held is None:
        return False
    _delete(leftover)
    held.release()
    return True


def _delete(leftover: Leftover) -> None:
    for path in (leftover.journal, leftover.file, _base(leftover.file)):
        path.unlink(missing_ok=True)


class Recovery(QObject):
    """Keeps what this window has not saved: each edit as a line, and now and then the whole as a copy.

    A copy holds what lines do not: trained weights, searches, measurements.
    """

    def __init__(self, session: Session, folder: Path | None = None) -> None:
        super().__init__(session)
        self._session = session
        self.journal = EditJournal(folder or data_folder("recovery"))
        self.file = self.journal.path.with_suffix(".espalier")
        self._kept: tuple[State, dict[str, bytes]] | None = None
        self._noted: tuple[Recipe, tuple[str, ...]] | None = None
        self._wanted: tuple[Leftover, Locked] | None = None
        self._held: Leftover | None = None
        self._told = ""  # why the journal failed, as the user was told
        self._copying: JobInfo | None = None
        self._begun = self._cost = 0.0
        self._pen = QTimer(self, interval=PEN, singleShot=True)
        self._pen.timeout.connect(self._note)
        self._clock = QTimer(self, singleShot=True)
        self._clock.timeout.connect(self.keep)
        session.changed.connect(self.look)
        session.wished.connect(self.look)
        session.saved.connect(self._saved)
        session.opened.connect(self._opened)
        session.job_event.connect(self._heard)
        session.placing = lambda version: self.journal.placing(_as_text(version))

    @property
    def recovered(self) -> bool:
        """Whether the open document came out of what another window left."""
        return self._held is not None

    def look(self) -> None:
        """Keep what is unsaved; forget it when nothing is."""
        document = self._session.document
        if document is None or not (document.dirty or self._session.waiting):
            self.forget()
            return
        # Where that takes a moment, only the first of a row is written at once, and the last when the row pauses.
        if not self._pen.isActive() or self.journal.cost < QUICK:
            self._note()
            self._pen.start()
        self._plan(document)

    def _saved(self) -> None:
        """What is unsaved still, as an edit that waits for the worker, goes on from the version that was just saved."""
        self.look()
        if self._noted is not None:
            self._noted = None
            self._note()

    def _note(self) -> None:
        """Write the edits down."""
        document = self._session.document
        if document is None:
            return
        now = self._session.recipe, self._session.waiting
        if self._noted is None:
            self.journal.begin(self._subject(document))
        if now != self._noted:
            label = now[1][-1] if now[1] else document.undo_label or "results"
            self.journal.edit(label, *now)
            self._noted = None if self.journal.failed else now
            self._tell_failure()

    def _tell_failure(self) -> None:
        """Say once that edits are not kept; a failure after edits that were kept is reported again."""
        why = self.journal.failed
        if why and why != self._told:
            message = f"Unsaved edits cannot be kept for recovery ({why})."
            self._session.problem.emit(FileError(message, "Free some space, or save the project now."))
        self._told = why

    def _subject(self, document: Document) -> Subject:
        opened = self._held.edits.subject.opened if self._held else self._session.named
        path, source = str(document.path or ""), document.project.source.spec
        return Subject(title_of(document), path, source, opened, _as_text(document.version))

    def _plan(self, document: Document) -> None:
        """Write a copy soon; seldom where that takes long."""
        due = self._kept != (document.present, document.project.extras) and document.dirty
        if due and not self._copying and not self._clock.isActive():
            self._clock.start(int(1000 * min(SELDOM, max(SOON, SHARE * self._cost))))

    def keep(self) -> None:
        """Write the copy now, unless it holds this state already."""
        document = self._session.document
        if document is None or not document.dirty or self._copying:
            return
        now = document.present, document.project.extras
        if self._kept == now:
            return
        self._note()
        self._begun, self._kept = time.monotonic(), now
        self._copying = self._session.save_as(self.file, copy=True)

    def _heard(self, heard: JobEvent) -> None:
        opening = heard.job.job.spec if isinstance(heard.job.job, OpenJob) else None
        if self._wanted and isinstance(heard.event, Failed | Stopped) and opening in _names(self._wanted[0]):
            self._wanted[1].release()  # it can be tried again, here or in another window
            self._wanted = None
        if heard.job is not self._copying or not isinstance(heard.event, TERMINAL):
            return
        self._copying, self._cost = None, time.monotonic() - self._begun
        if not isinstance(heard.event, Done):
            self._kept = None
        elif self._noted is None:  # nothing is unsaved any more
            self.file.unlink(missing_ok=True)
        elif self.journal.long:
            self._noted = None
            self._note()
        if (document := self._session.document) is not None:
            self._plan(document)

    def forget(self) -> None:
        """Nothing is unsaved: offer nothing after a crash."""
        self._clock.stop()
        self._pen.stop()
        self._kept = self._noted = None
        self.journal.forget()
        if self._copying:
            self._session.cancel(self._copying.id)
        self.file.unlink(missing_ok=True)

    def end(self) -> None:
        """The document is gone: delete everything."""
        self.forget()
        if self._held:
            _delete(self._held)
        self._held = None

    def recover(self, leftover: Leftover) -> bool:
        """Open what was left as unsaved work on its original; False where another window has it by now."""
        taken = take(leftover.journal)
        if taken is None:
            return False
        self._wanted = leftover, taken
        opened = str(_to_read(leftover.file)) if leftover.file.exists() else leftover.edits.subject.opened
        self._session.open(opened, title=f"Recover {leftover.title}")
        return True

    def _opened(self) -> None:
        self.end()
        document, wanted = self._session.document, self._wanted
        if document is None or wanted is None:
            return
        leftover, subject = wanted[0], wanted[0].edits.subject
        *copies, _ = names = _names(leftover)
        if self._session.named not in names:
            return  # another model, that was asked for before
        self._wanted = None
        self._adopt(leftover, wanted[1])
        if self._session.named in copies:
            unsaved = {"": b""}  # no file holds it: studies, which are no steps, are unsaved too until they are saved
            document.saved(leftover.file, State(Recipe(), document.project.base), unsaved)
            document.path, document.version = Path(subject.path) if subject.path else None, version_of(leftover.edits)
        if leftover.edits.count and self._session.recipe != leftover.edits.recipe:
            self._session.set_recipe(leftover.edits.recipe, "Recover edits")
        self.look()

    def _adopt(self, leftover: Leftover, taken: Locked) -> None:
        """Go on with its journal and its copy, so that there is no moment without them, and none with two."""
        self._held, self.file = leftover, leftover.file
        self.journal.adopt(taken)
        self._noted = (leftover.edits.recipe, leftover.edits.waiting) if leftover.edits.count else None


def _names(leftover: Leftover) -> tuple[str, str, str]:
    """By what it may be opened: its copy under either name, or what the edits are of."""
    return str(leftover.file), str(_base(leftover.file)), leftover.edits.subject.opened


def _to_read(file: Path) -> Path:
    """A second name of a copy, to read it by while newer copies take its place; itself where there are no such."""
    base = _base(file)
    base.unlink(missing_ok=True)
    try:
        os.link(file, base)
    except OSError:
        return file
    return base


def version_of(edits: Edits) -> Version | None:
    """The version of the file that edits go on from; None where none is known.

    Where their window died before it heard that a save of its own was done, it is what that save left.
    """
    there = Version.of(Path(edits.subject.path)) if edits.subject.path else None
    return there if there and _as_text(there) in edits.placed else _from_text(edits.subject.version)


def _as_text(version: Version | None) -> str:
    facts = (version.file.device, version.file.inode, version.size, version.time) if version else ()
    return " ".join(map(str, facts))


def _from_text(text: str) -> Version | None:
    with contextlib.suppress(ValueError):
        device, inode, size, when = map(int, text.split())
        return Version(FileId(device, inode), size, when)
    return None
