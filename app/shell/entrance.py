"""How a model comes in: the welcome page, the loading page, recovery and dropped files, before there is a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from espalier.app.session.recovery import Leftover, discard, holds, leftovers, title_of
from espalier.app.shell.loading import LoadingPage
from espalier.app.shell.welcome import WelcomePage
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, OpenJob, Progress

if TYPE_CHECKING:
    from espalier.app.errors import Banner, Button
    from espalier.app.session.recovery import Recovery
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.model.document.document import Document


def dropped(data: QMimeData) -> list[Path]:
    """The local files and folders of a drop."""
    return [Path(u.toLocalFile()) for u in data.urls() if u.isLocalFile()]


class Entrance(QStackedWidget):
    """The pages of the centre; the canvas joins them when it is made.

    `changed`: another page is to be shown. `recover_wanted`: recover this once nothing unsaved would be lost.
    """

    changed = Signal()
    recover_wanted = Signal(object)

    def __init__(self, session: Session, settings: Settings, banner: Banner, recovery: Recovery) -> None:
        super().__init__()
        self._session, self._banner, self._recovery = session, banner, recovery
        self.welcome, self.loading = WelcomePage(settings), LoadingPage()
        for page in (self.welcome, self.loading):
            self.addWidget(page)
        self.loading.cancelled.connect(self._cancel)
        self.welcome.recover_wanted.connect(self._recover)
        self.welcome.discard_wanted.connect(self._discard)
        session.job_event.connect(self._heard)
        self.refresh()

    def refresh(self) -> None:
        """Read recent files and unsaved work again."""
        self.welcome.refresh(leftovers())

    def arrived(self, document: Document) -> None:
        """A model was opened: what was told before it is over.

        What a run that died held of it is offered: who starts with a model sees no welcome page.
        """
        self._banner.clear()
        if self._recovery.recovered:
            return
        name = title_of(document)
        found = next((left for left in leftovers() if holds(left, document)), None)
        if found is not None:
            buttons: list[Button] = [("Discard it", lambda: self._forgo(found))]
            if found.opens:
                buttons.insert(0, ("Recover", lambda: self.recover_wanted.emit(found)))
            hint = f"Unsaved work is kept: {found.holds}."
            self._banner.offer(f"A window with {name} ended before it was saved.", hint, buttons)

    def recover_still(self, leftover: Leftover) -> None:
        """Unless another window, which offers it too, has taken or discarded it."""
        self._banner.drop()
        self._recover(leftover)

    def _forgo(self, leftover: Leftover) -> None:
        self._discard(leftover)
        self._banner.drop()

    def begin(self, spec: str) -> None:
        """Open a source or project; asks nothing."""
        self._session.open(spec)
        self.loading.begin(f"Opening {spec}")

    @property
    def page(self) -> QWidget:
        """What to show while no model is open."""
        opening = any(isinstance(j.job, OpenJob) for j in self._session.jobs)
        return self.loading if opening else self.welcome

    def _heard(self, heard: JobEvent) -> None:
        if not isinstance(heard.job.job, OpenJob):
            return
        if isinstance(heard.event, Progress):
            self.loading.tell(heard.event.text)
        elif isinstance(heard.event, TERMINAL) and not isinstance(heard.event, Done):
            self.changed.emit()

    def _cancel(self) -> None:
        for job in list(self._session.jobs):
            if isinstance(job.job, OpenJob):
                self._session.cancel(job.id)

    def _recover(self, leftover: Leftover) -> None:
        if not self._recovery.recover(leftover):
            told = f"The unsaved work on {leftover.title} is gone."
            self._banner.tell(told, "Another window took or discarded it.")
            return
        self.loading.begin(f"Recovering {leftover.title}")
        self.changed.emit()

    def _discard(self, leftover: Leftover) -> None:
        discard(leftover)
        self.refresh()
