"""Ownership of a project file: one window may save to it; changes by other programs are reported, not overwritten.

The owner locks a claim file in the program's own folder. A second window on the same project is read-only until it
takes over, which it asks for through a second file.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QTimer, Signal
from PySide6.QtCore import QObject as Base

from espalier.app.file_claims import claim, give_back, holder, is_wanted, want
from espalier.app.locks import Locked
from espalier.app.number_text import counted
from espalier.app.session.measures import Baseline
from espalier.app.step_text import summary, title
from espalier.app.translation import tr
from espalier.model.document.recipe import Recipe, Step
from espalier.model.leftovers import clear_parts
from espalier.model.store.open_files import Version
from espalier.passes.jobs.kinds import Failed, JobEvent, OpenJob, OpenResult, SaveJob

if TYPE_CHECKING:
    from espalier.app.errors import Banner, Button
    from espalier.app.session.session import Session

# Milliseconds: between two checks of the file, for a take-over at most, between its tries.
CHECK_INTERVAL, TAKE_OVER_TIMEOUT, TRY_INTERVAL = 1000, 5000, 100
DISK = tr("on disk")


class Ownership(Base):
    """Owns the file of one window's document. `changed`: the window gained or lost the right to save to it."""

    changed = Signal()
    save_wanted = Signal()
    save_as_wanted = Signal()
    reload_wanted = Signal(str)

    def __init__(self, parent: Base, session: Session, banner: Banner) -> None:
        super().__init__(parent)
        self._session, self._banner = session, banner
        self._path: Path | None = None
        self._claim: Locked | None = None
        self._reported: Version | None = None  # the version of the file that the user was asked about
        self._missing_reported = False
        self._request: Locked | None = None  # held while this window asks another for the file
        self._check_timer = QTimer(self, interval=CHECK_INTERVAL)
        self._check_timer.timeout.connect(self.check_file)
        self._try_timer = QTimer(self, interval=TRY_INTERVAL)
        self._try_timer.timeout.connect(self._try_claim)
        self._elapsed = QElapsedTimer()
        session.opened.connect(self._claim_document)
        session.saved.connect(self._claim_document)
        session.job_event.connect(self._job_event)

    @property
    def read_only(self) -> bool:
        """Whether another window owns the file of the open document."""
        return self._path is not None and self._claim is None

    @property
    def title(self) -> str:
        """The title of the open document; empty if none is open."""
        document = self._session.document
        if document is None:
            return ""
        source = document.project.source.name
        name = f"{document.path.name} — {source}" if document.path else source
        return tr("{} (read-only)", name) if self.read_only else name

    def may_write(self, path: Path) -> bool:
        """Whether this window may write a project to `path`; shows a message if another window owns it."""
        path = path.resolve()
        if path == self._path:
            if self.read_only:
                self._offer_take_over()
            return not self.read_only
        trial = claim(path)
        if trial is None:
            hint = tr("Choose another name, or save it in that window.")
            self._banner.show_message(_elsewhere(path), hint, kind="error")
            return False
        trial.release()  # the claim file stays until the save ends: it names the path that a killed window wrote to
        return True

    def end(self) -> None:
        """Give the file up."""
        self._check_timer.stop()
        self._stop_trying()
        if self._claim:
            give_back(self._claim)
        self._path = self._claim = self._reported = None

    def _claim_document(self) -> None:
        """Claim the file of the open document."""
        document = self._session.document
        path = document.path if document else None
        if path != self._path or (path and self._claim is None):
            self.end()
            self._path = path
            self._claim = claim(path) if path else None
            if path:  # partial files of a killed window; in a thread, as a drive may be slow
                threading.Thread(target=clear_parts, args=(path.parent,), name="espalier-parts", daemon=True).start()
            if self.read_only:
                self._offer_take_over()
            self.changed.emit()
        self._reported, self._missing_reported = None, False
        if path:
            self._check_timer.start()
            self.check_file()

    # -- another window

    def _offer_take_over(self) -> None:
        assert self._path is not None
        take: Button = tr("Take over"), self.take_over
        save: Button = tr("Save as…"), self.save_as_wanted.emit
        hint = tr("It is read-only here: save it under another name, or take it over.")
        self._banner.offer(_elsewhere(self._path), hint, [take, save])

    def take_over(self) -> None:
        """Ask the other window for the file."""
        if self._path is None:
            return
        self._banner.drop_offer()
        self._stop_trying()  # a second request needs the lock of the first one
        self._request = want(self._path)
        self._elapsed.start()
        self._try_timer.start()

    def _try_claim(self) -> None:
        """Claim the file if the other window has given it up; give up after the timeout."""
        path = self._path
        if path is None or not self.read_only:
            self._stop_trying()
        elif (own := claim(path)) is not None:
            self._stop_trying()
            self._claim, self._reported = own, None
            self.changed.emit()
            self.check_file()
        elif self._elapsed.elapsed() > TAKE_OVER_TIMEOUT:
            self._stop_trying()
            self._banner.show_message(
                tr("The other window with {} does not answer.", path.name), tr("Save under another name."), kind="error"
            )

    def _stop_trying(self) -> None:
        self._try_timer.stop()
        if self._request:
            give_back(self._request)
        self._request = None

    def _give_up(self, path: Path) -> None:
        """Release the file to another window; unsaved edits stay here."""
        assert self._claim is not None
        give_back(self._claim)
        self._claim = None
        take: Button = tr("Take back"), self.take_over
        save: Button = tr("Save as…"), self.save_as_wanted.emit
        hint = tr("Your edits are still here. Save them under another name, or take the file back.")
        self._banner.offer(tr("Another Espalier window took over {}.", path.name), hint, [take, save])
        self.changed.emit()

    # -- another program

    def check_file(self) -> None:
        """Report a change or deletion by another program; give the file up if another window asks for it."""
        document, path = self._session.document, self._path
        if document is None or path is None or path != document.path:
            return
        if self._claim and not self._saving() and is_wanted(path):
            self._give_up(path)
        version = Version.of(path)
        if self._saving() or version == document.version:
            return
        if version is None and not self._missing_reported:
            self._missing_reported = True
            save: Button = tr("Save again"), self.save_wanted.emit
            hint = tr("The project is still open here. Save it again to restore the file.")
            self._banner.offer(tr("{} no longer exists.", path.name), hint, [save])
        elif version is not None and version != self._reported:
            self._reported = version
            self._ask(path)

    def _saving(self) -> bool:
        return any(isinstance(j.job, SaveJob) and not j.job.copy for j in self._session.jobs)

    def _ask(self, path: Path, differences: str = "") -> None:
        """Ask what to do about a change by another program; `differences`: the result of Compare."""
        document = self._session.document
        dirty = bool(document and document.dirty)
        buttons: list[Button] = [(tr("Reload, discard my edits") if dirty else tr("Reload"), self._reload)]
        if not self.read_only:
            buttons.append((tr("Overwrite with mine"), self._overwrite))
        if not differences:
            buttons.append((tr("Compare"), self._compare))
        buttons.append((tr("Save as…"), self.save_as_wanted.emit))
        hint = differences or tr("Choose which version to keep, or save under another name.")
        self._banner.offer(tr("{} was changed by another program since it was opened.", path.name), hint, buttons)

    def _reload(self) -> None:
        self._banner.drop_offer()
        if self._path:
            self.reload_wanted.emit(str(self._path))

    def _overwrite(self) -> None:
        self._banner.drop_offer()
        self._session.save(anyway=True)

    def _compare(self) -> None:
        """Open the version on disk as the baseline of the score."""
        document, path = self._session.document, self._path
        if document is None or path is None:
            return
        self._banner.drop_offer()
        job = OpenJob(str(path), document.store.folder / "on-disk")
        self._session.submit(tr("Compare with {}", path.name), job, lambda result: self._compared(path, result))

    def _compared(self, path: Path, result: OpenResult) -> None:
        document = self._session.document
        if document is None or path != self._path:
            return
        mine, theirs = self._session.recipe, result.project.recipe
        if result.project.base != document.project.base:
            self._ask(path, tr("The file on disk holds another model."))
            return
        document.store.add_new(result.locations)
        self._session.compare_with(Baseline(DISK, theirs, result.project.graph))
        self._ask(path, recipe_differences(mine, theirs) + tr(" The score is compared with it."))

    def _job_event(self, event: JobEvent) -> None:
        """Ask again after a save that failed because the file had changed."""
        if isinstance(event.event, Failed) and isinstance(event.job.job, SaveJob) and not event.job.job.copy:
            self._reported = None
            QTimer.singleShot(0, self, self.check_file)


def recipe_differences(mine: Recipe, theirs: Recipe) -> str:
    """The steps after the common prefix of two recipes, as a sentence."""
    shared = 0
    while shared < min(len(mine.steps), len(theirs.steps)) and mine.steps[shared] == theirs.steps[shared]:
        shared += 1
    if mine.steps == theirs.steps:
        return tr("Both have the same steps.")
    here, there = (", ".join(map(_described, r.steps[shared:])) or tr("no step") for r in (mine, theirs))
    prefix = (
        counted(shared, "The first %n step is equal; then ", "The first %n steps are equal; then ") if shared else ""
    )
    return tr("{}{} here, {} on disk.", prefix, here, there)


def _described(step: Step) -> str:
    """A step with its options, so that two quantisations can be told apart."""
    return f"{title(step)} ({text})" if (text := summary(step)) else title(step)


def _elsewhere(path: Path) -> str:
    owner = holder(path)
    return tr("{} is open in another Espalier window{}.", path.name, f" ({owner})" if owner else "")
