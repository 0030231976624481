"""Whose a project's file is: one window may save to it; a change by another program is reported, never overwritten.

The window that holds a file locks a note in the program's own folder; a second window on the file is read-only until
it takes over, which the first one hears of through a second note.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QTimer, Signal
from PySide6.QtCore import QObject as Base

from espalier.app.claims import claim, give_back, holder, is_wanted, want
from espalier.app.locks import Locked
from espalier.app.session.accuracies import Baseline
from espalier.app.step_words import title
from espalier.app.words import plural
from espalier.model.document.recipe import Recipe
from espalier.model.leftovers import clear_parts
from espalier.model.store.open_files import Version
from espalier.passes.jobs.kinds import Failed, JobEvent, OpenJob, OpenResult, SaveJob

if TYPE_CHECKING:
    from espalier.app.errors import Banner, Button
    from espalier.app.session.session import Session

EVERY, PATIENCE, AGAIN = 1000, 5000, 100  # milliseconds: looks at the file, how long a take-over may last, its tries
DISK = "on disk"


class Ownership(Base):
    """Of the file of one window's document. `changed`: whether the window may save to it."""

    changed = Signal()
    save_wanted = Signal()
    save_as_wanted = Signal()
    reload_wanted = Signal(str)

    def __init__(self, parent: Base, session: Session, banner: Banner) -> None:
        super().__init__(parent)
        self._session, self._banner = session, banner
        self._path: Path | None = None
        self._claim: Locked | None = None
        self._told: Version | None = None  # the version of the file that the user was asked about
        self._gone = False
        self._wish: Locked | None = None  # held while this window asks another for the file
        self._clock = QTimer(self, interval=EVERY)
        self._clock.timeout.connect(self.look)
        self._tries = QTimer(self, interval=AGAIN)
        self._tries.timeout.connect(self._try)
        self._waited = QElapsedTimer()
        session.opened.connect(self._follow)
        session.saved.connect(self._follow)
        session.job_event.connect(self._heard)

    @property
    def read_only(self) -> bool:
        """Whether another window holds the file of the open document."""
        return self._path is not None and self._claim is None

    @property
    def title(self) -> str:
        """What the open document is called; empty where there is none."""
        document = self._session.document
        if document is None:
            return ""
        source = document.project.source.name
        name = f"{document.path.name} — {source}" if document.path else source
        return f"{name} (read-only)" if self.read_only else name

    def free(self, path: Path) -> bool:
        """Whether this window may write a project there: no other holds it. Tells the user where not."""
        path = path.resolve()
        if path == self._path:
            if self.read_only:
                self._tell_held()
            return not self.read_only
        held = claim(path)
        if held is None:
            hint = "Choose another name, or save it in that window."
            self._banner.tell(_elsewhere(path), hint, kind="error")
            return False
        held.release()  # its note stays until the save is heard of: it tells where one that is killed was writing
        return True

    def end(self) -> None:
        """Let the file go."""
        self._clock.stop()
        self._stop_trying()
        if self._claim:
            give_back(self._claim)
        self._path = self._claim = self._told = None

    def _follow(self) -> None:
        """The document has another file, or was saved: hold that."""
        document = self._session.document
        path = document.path if document else None
        if path != self._path or (path and self._claim is None):
            self.end()
            self._path = path
            self._claim = claim(path) if path else None
            if path:  # what a window that is gone had half written there; a drive may be slow
                threading.Thread(target=clear_parts, args=(path.parent,), name="espalier-parts", daemon=True).start()
            if self.read_only:
                self._tell_held()
            self.changed.emit()
        self._told, self._gone = None, False
        if path:
            self._clock.start()
            self.look()

    # -- another window

    def _tell_held(self) -> None:
        assert self._path is not None
        take: Button = "Take over", self.take_over
        save: Button = "Save as…", self.save_as_wanted.emit
        hint = "Here it is read-only: edit as you like, and save under another name, or take it over."
        self._banner.offer(_elsewhere(self._path), hint, [take, save])

    def take_over(self) -> None:
        """Ask the other window for the file."""
        if self._path is None:
            return
        self._banner.drop()
        self._stop_trying()  # asked twice, it would be without the first wish, and hold none
        self._wish = want(self._path)
        self._waited.start()
        self._tries.start()

    def _try(self) -> None:
        """Whether the other window has let it go."""
        path = self._path
        if path is None or not self.read_only:
            self._stop_trying()
        elif (held := claim(path)) is not None:
            self._stop_trying()
            self._claim, self._told = held, None
            self.changed.emit()
            self.look()
        elif self._waited.elapsed() > PATIENCE:
            self._stop_trying()
            self._banner.tell(f"The other window with {path.name} does not answer.", "Save under another name.",
                                     kind="error")  # fmt: skip

    def _stop_trying(self) -> None:
        self._tries.stop()
        if self._wish:
            give_back(self._wish)
        self._wish = None

    def _give_up(self, path: Path) -> None:
        """Another window took the file over: what is unsaved here stays here."""
        assert self._claim is not None
        give_back(self._claim)
        self._claim = None
        take: Button = "Take it back", self.take_over
        save: Button = "Save as…", self.save_as_wanted.emit
        hint = "Your edits are still here: save them under another name, or take it back."
        self._banner.offer(f"Another Espalier window took over {path.name}.", hint, [take, save])
        self.changed.emit()

    # -- another program

    def look(self) -> None:
        """Look at the file, and tell what another program, or another window, did to it."""
        document, path = self._session.document, self._path
        if document is None or path is None or path != document.path:
            return
        if self._claim and not self._saving() and is_wanted(path):
            self._give_up(path)
        now = Version.of(path)
        if self._saving() or now == document.version:
            return
        if now is None and not self._gone:
            self._gone = True
            save: Button = "Save it again", self.save_wanted.emit
            hint = "Everything is still open here."
            self._banner.offer(f"{path.name} cannot be found any more.", hint, [save])
        elif now is not None and now != self._told:
            self._told = now
            self._ask(path)

    def _saving(self) -> bool:
        return any(isinstance(j.job, SaveJob) and not j.job.copy for j in self._session.jobs)

    def _ask(self, path: Path, compared: str = "") -> None:
        document = self._session.document
        dirty = bool(document and document.dirty)
        buttons: list[Button] = [("Reload and drop my edits" if dirty else "Reload", self._reload)]
        if not self.read_only:
            buttons.append(("Keep mine: save over it", self._keep))
        if not compared:
            buttons.append(("Compare", self._compare))
        hint = compared or "Nothing is written before you choose; you can also save under another name."
        self._banner.offer(f"{path.name} was changed by another program since it was opened.", hint, buttons)

    def _reload(self) -> None:
        self._banner.drop()
        if self._path:
            self.reload_wanted.emit(str(self._path))

    def _keep(self) -> None:
        self._banner.drop()
        self._session.save(anyway=True)

    def _compare(self) -> None:
        """Open what is on the disk beside, as what figures are compared with."""
        document, path = self._session.document, self._path
        if document is None or path is None:
            return
        self._banner.drop()
        job = OpenJob(str(path), document.store.folder / "on-disk")
        self._session.submit(f"Compare with {path.name}", job, lambda result: self._compared(path, result))

    def _compared(self, path: Path, found: OpenResult) -> None:
        document = self._session.document
        if document is None or path != self._path:
            return
        mine, theirs = self._session.recipe, found.project.recipe
        if found.project.base != document.project.base:
            self._ask(path, "On disk is another model.")
            return
        document.store.add_new(found.locations)
        self._session.compare_with(Baseline(DISK, theirs, found.project.graph))
        self._ask(path, differences(mine, theirs) + " Figures are compared with it.")

    def _heard(self, heard: JobEvent) -> None:
        """A save that found the file changed asks what is to be kept."""
        if isinstance(heard.event, Failed) and isinstance(heard.job.job, SaveJob) and not heard.job.job.copy:
            self._told = None
            QTimer.singleShot(0, self, self.look)


def differences(mine: Recipe, theirs: Recipe) -> str:
    """What two recipes do not share, in words."""
    same = 0
    while same < min(len(mine.steps), len(theirs.steps)) and mine.steps[same] == theirs.steps[same]:
        same += 1
    if mine.steps == theirs.steps:
        return "Both have the same steps."
    here, there = (", ".join(title(s) for s in r.steps[same:]) or "no step" for r in (mine, theirs))
    equal = f"The first {plural(same, 'step')} {'is' if same == 1 else 'are'} equal, then: " if same else ""
    return f"{equal}{here} here, {there} on disk."


def _elsewhere(path: Path) -> str:
    who = holder(path)
    return f"{path.name} is open in another Espalier window{f' ({who})' if who else ''}."
