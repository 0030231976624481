"""The pages of the window: welcome, loading and the workbench; offers recovery of unsaved work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QTimer, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from espalier.app.session.recovery import UnsavedProject, discard, is_of, title_of, unsaved_projects
from espalier.app.shell.loading import LoadingPage
from espalier.app.shell.welcome import WelcomePage
from espalier.app.shell.workbench import Workbench
from espalier.app.translation import message, tr
from espalier.app.widgets.figure_files import is_own
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, OpenJob, Progress

if TYPE_CHECKING:
    from espalier.app.errors import Banner, Button
    from espalier.app.session.recovery import Recovery
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.model.document.document import Document


def dropped_paths(data: QMimeData) -> list[Path]:
    """The local files and folders of a drop; none of a figure that was dragged out of this program."""
    if is_own(data):
        return []
    return [Path(u.toLocalFile()) for u in data.urls() if u.isLocalFile()]


LOOK = 500  # milliseconds between two looks at a queued opening


class StartPages(QStackedWidget):
    """The pages at the centre of the window: the workbench while a model is open.

    `changed`: the page has changed. `recover_wanted`: recover an UnsavedProject after asking about unsaved changes.
    """

    changed = Signal()
    recover_wanted = Signal(object)

    def __init__(self, session: Session, settings: Settings, banner: Banner, recovery: Recovery) -> None:
        super().__init__()
        self._session, self._banner, self._recovery = session, banner, recovery
        self.welcome, self.loading, self.workbench = WelcomePage(settings), LoadingPage(), Workbench()
        for page in (self.welcome, self.loading, self.workbench):
            self.addWidget(page)
        self.loading.cancelled.connect(self._cancel)
        self.welcome.recover_wanted.connect(self._recover)
        self.welcome.discard_wanted.connect(self._discard)
        session.job_event.connect(self._job_event)
        self._waiting = QTimer(self, interval=LOOK)
        self._waiting.timeout.connect(self._show_waiting)
        self.refresh()

    def refresh(self) -> None:
        """Update the recent files and the unsaved work on the welcome page."""
        self.welcome.refresh(unsaved_projects())

    def document_opened(self, document: Document) -> None:
        """Clear the banner, and offer to recover unsaved work on this model.

        The welcome page offers it too, but a window that starts with a model does not show that page.
        """
        self._banner.clear()
        if self._recovery.recovered:
            return
        name = title_of(document)
        leftover = next((one for one in unsaved_projects() if is_of(one, document)), None)
        if leftover is not None:
            buttons: list[Button] = [(tr("Discard"), lambda: self._discard_offered(leftover))]
            if leftover.opens:
                buttons.insert(0, (tr("Recover"), lambda: self.recover_wanted.emit(leftover)))
            hint = tr("Its unsaved work can be recovered: {}.", leftover.summary)
            self._banner.offer(tr("A window with {} ended without saving.", name), hint, buttons)

    def recover(self, leftover: UnsavedProject) -> None:
        """Recover unsaved work that the banner offered."""
        self._banner.drop_offer()
        self._recover(leftover)

    def _discard_offered(self, leftover: UnsavedProject) -> None:
        self._discard(leftover)
        self._banner.drop_offer()

    def begin(self, spec: str) -> None:
        """Open a source or project and show the progress."""
        self._session.open(spec)
        self.loading.begin(tr("Opening {}", spec))
        self._waiting.start()

    @property
    def page(self) -> QWidget:
        """The page to show while no model is open."""
        opening = any(isinstance(j.job, OpenJob) for j in self._session.jobs)
        return self.loading if opening else self.welcome

    def _job_event(self, event: JobEvent) -> None:
        if not isinstance(event.job.job, OpenJob):
            return
        if isinstance(event.event, Progress):
            self.loading.show_progress(message(event.event.text))
        elif isinstance(event.event, TERMINAL) and not isinstance(event.event, Done):
            self.changed.emit()

    def _show_waiting(self) -> None:
        """Say what the opening waits for, as long as it is queued."""
        opening = next((j for j in self._session.jobs if isinstance(j.job, OpenJob)), None)
        if opening is None or opening.state != "waiting":
            self._waiting.stop()
            return
        if opening.waits:
            self.loading.show_progress(tr("queued: {}", opening.waits))

    def _cancel(self) -> None:
        for job in list(self._session.jobs):
            if isinstance(job.job, OpenJob):
                self._session.cancel(job.id)

    def _recover(self, leftover: UnsavedProject) -> None:
        if not self._recovery.recover(leftover):
            message = tr("The unsaved work on {} no longer exists.", leftover.title)
            self._banner.show_message(message, tr("Another window recovered or discarded it."))
            return
        self.loading.begin(tr("Recovering {}", leftover.title))
        self.changed.emit()

    def _discard(self, leftover: UnsavedProject) -> None:
        discard(leftover)
        self.refresh()
