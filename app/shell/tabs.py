"""The program's window: one document per tab. Each tab is a Window with its own session; all share the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from espalier.app.jobs.concurrency import is_long
from espalier.app.shell.ending_windows import EndingWindows
from espalier.app.shell.tab_bar import TabBar
from espalier.app.translation import tr
from espalier.passes.jobs.kinds import OpenJob

if TYPE_CHECKING:
    from espalier.app.settings import Settings
    from espalier.app.shell.window import Window

NEW = tr("New tab")


@dataclass(eq=False, slots=True)
class Tab:
    """One tab. `spec`: a source that is opened when the tab is chosen for the first time; `page` is empty until then.

    `restored`: the source is of the last session; nobody has named it in this one.
    """

    page: QWidget
    window: Window | None
    spec: str = ""
    restored: bool = False


class Tabs(QWidget):
    """Holds the tabs. `make` creates a Window that is not shown; `start` loads plug-ins into each new one."""

    def __init__(self, make: Callable[[], Window], settings: Settings, start: Callable[[Window], object]) -> None:
        super().__init__()
        self._make, self._settings, self._start = make, settings, start
        self._tabs: list[Tab] = []
        self._agreed: set[Window] = set()  # windows whose unsaved changes were saved or given up while all are closed
        self._may_end = False  # all have agreed, and `close` is called
        self.bar, self._stack = TabBar(), QStackedWidget()
        self._build()
        self._ending = EndingWindows(self)
        self.resize(1440, 900)
        if layout := settings.layout():
            self.restoreGeometry(layout[0])

    def _build(self) -> None:
        bar = self.bar
        bar.hide()
        bar.currentChanged.connect(self._chosen)
        bar.close_wanted.connect(lambda index: self.close_tab(self._tabs[index]))
        bar.tabMoved.connect(lambda old, new: self._tabs.insert(new, self._tabs.pop(old)))
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(bar)
        box.addWidget(self._stack, 1)

    # -- what there is

    @property
    def count(self) -> int:
        """The number of tabs."""
        return len(self._tabs)

    @property
    def current(self) -> Window:
        """The window of the tab in front."""
        window = self._tabs[self.bar.currentIndex()].window
        assert window is not None  # `_chosen` has created it
        return window

    @property
    def windows(self) -> list[Window]:
        """The windows of all tabs that were chosen once."""
        return [tab.window for tab in self._tabs if tab.window is not None]

    def _open_sources(self) -> tuple[list[str], int]:
        """What is open, from left to right, and which of it is in front."""
        used = [tab for tab in self._tabs if _source(tab)]
        front = self._tabs[self.bar.currentIndex()]
        return [_source(tab) for tab in used], used.index(front) if front in used else 0

    # -- opening

    def new(self) -> None:
        """Open an empty tab behind the present one and choose it."""
        self.open("")
        self.current.pages.welcome.spec.setFocus()

    def bring(self, spec: str) -> bool:
        """Bring the other tab to the front in which a project is open or being opened; False if there is none.

        An empty tab that was in front is closed.
        """
        tab = _tab_of(spec, self._tabs)
        if tab is None or tab is self._tabs[self.bar.currentIndex()]:
            return False
        left = self._tabs[self.bar.currentIndex()]
        self.bar.setCurrentIndex(self._tabs.index(tab))
        if _is_empty(left):
            QTimer.singleShot(0, lambda: self._remove(left))  # its window still handles the request
        return True

    def open(self, spec: str) -> None:
        """Open a source in a tab of its own."""
        self.add(spec, self.bar.currentIndex() + 1)
        self.bar.setCurrentIndex(self.bar.currentIndex() + 1)

    def restore(self, sources: Sequence[str], current: int) -> None:
        """Open the sources of the last session, the one in front at once and each other one when it is chosen.

        The tab in front, which is empty, becomes the one that was in front.
        """
        for index, source in enumerate(sources):
            if index != current:
                self.add(source, index, restored=True)
        self.current.services.reopening.begin(sources[current])

    def add(self, spec: str, index: int | None = None, *, restored: bool = False) -> None:
        """Add a tab that opens its source when it is chosen; the first tab is chosen at once."""
        tab = Tab(QWidget(), None, spec, restored)
        index = self.count if index is None else index
        self._tabs.insert(index, tab)
        self._stack.addWidget(tab.page)
        self.bar.insert(index)
        self._show_name(tab)
        self.bar.setVisible(self.count > 1)
        if self.count == 1:
            self._chosen(0)

    def _chosen(self, index: int) -> None:
        """Show the tab in front; create its window if it was never shown."""
        if not 0 <= index < self.count:
            return
        tab = self._tabs[index]
        if tab.window is None:
            self._create(tab)
        assert tab.window is not None
        for window in self.windows:
            if window.panels_built:  # floating panels are windows of their own, and go with their tab
                window.docks.show_floating(window is tab.window and window.session.document is not None)
        self._stack.setCurrentWidget(tab.window)
        tab.window.actions_table.refresh()
        self._show_title()

    def _create(self, tab: Tab) -> None:
        window, page = self._make(), tab.page
        window.setWindowFlags(Qt.WindowType.Widget)
        window.tabs = self
        window.title_changed.connect(lambda: self._show_name(tab))
        window.session.opened.connect(lambda: _forget_source(tab))
        for signal in (window.session.queued, window.session.job_event):
            signal.connect(lambda *_: self._show_name(tab))
        tab.window = tab.page = window
        self._stack.addWidget(window)
        self._stack.setCurrentWidget(window)
        self._stack.removeWidget(page)
        page.deleteLater()
        self._share_plugins(window)
        if tab.spec:
            (window.services.reopening.begin if tab.restored else window.begin_opening)(tab.spec)

    def _share_plugins(self, window: Window) -> None:
        """Plug-ins belong to the process: a new tab takes what another one has loaded, and all follow a change."""
        ready = next((w for w in self.windows if w is not window and not w.plugins.loading), None)
        window.plugins.changed.connect(lambda: self._follow_plugins(window))
        if ready is None:
            self._start(window)
        else:
            window.plugins.adopt(ready.plugins)

    def _follow_plugins(self, changed: Window) -> None:
        for window in self.windows:
            if window is not changed and not changed.plugins.loading:
                window.plugins.adopt(changed.plugins)

    # -- names

    def _show_name(self, tab: Tab) -> None:
        """Show the name of a tab's document, whether it is changed, and whether a long job runs."""
        if tab not in self._tabs:
            return
        index, window = self._tabs.index(tab), tab.window
        source = _source(tab)
        name = (window.ownership.title if window else "") or Path(source).name or NEW
        works = window is not None and any(is_long(job.job) for job in window.session.jobs)
        accent = window.appearance.palette.accent if window and works else ""
        self.bar.show_document(index, f"{name}{'*' if window and window.isWindowModified() else ''}", source, accent)
        if index == self.bar.currentIndex():
            self._show_title()

    def _show_title(self) -> None:
        window = self._tabs[self.bar.currentIndex()].window
        if window is not None:
            self.setWindowTitle(window.windowTitle())
            self.setWindowModified(window.isWindowModified())

    # -- choosing

    def step(self, by: int) -> None:
        """Choose the tab that many to the right, beginning again at the left end."""
        self.bar.setCurrentIndex((self.bar.currentIndex() + by) % self.count)

    # -- closing

    def close_current(self) -> None:
        """Close the tab in front, after asking about unsaved changes; of a single tab only the document."""
        self.close_tab(self._tabs[self.bar.currentIndex()])

    def close_tab(self, tab: Tab) -> None:
        """Close a tab, after asking about unsaved changes; of a single tab only the document."""
        window = tab.window
        if window is None:
            self._remove(tab)
            return
        self.bar.setCurrentIndex(self._tabs.index(tab))
        saving = window.services.saving
        saving.guard(window.session.close if self.count == 1 else lambda: self._remove(tab))

    def _remove(self, tab: Tab) -> None:
        """Take a tab away; its window ends once its jobs, which are cancelled, have ended."""
        if tab not in self._tabs or self.count == 1:
            return
        index = self._tabs.index(tab)
        if index == self.bar.currentIndex():
            self.bar.setCurrentIndex(index - 1 if index else 1)
            index = self._tabs.index(tab)
        self._tabs.remove(tab)
        self.bar.take(index)
        self._stack.removeWidget(tab.page)
        self.bar.setVisible(self.count > 1)
        tab.page.hide()
        if tab.window is None:
            tab.page.deleteLater()
            return
        self._ending.add(tab.window)
        tab.window = None

    def closeEvent(self, event: QCloseEvent) -> None:
        """Close all tabs; each with unsaved changes asks in turn, and Cancel keeps the rest open."""
        if not self._may_end:
            self._agreed.clear()
            if not self._ask_next():
                event.ignore()
                return
        self._settings.session = self._open_sources()
        for window in self.windows:
            window.close_now()
        self._ending.end_now()
        self._settings.sync()
        event.accept()

    def _ask_next(self) -> bool:
        """Ask for the next window with unsaved changes; returns True if there is none."""
        for tab in self._tabs:
            window = tab.window
            if window is None or window in self._agreed or not window.services.saving.unsaved():
                continue
            self.bar.setCurrentIndex(self._tabs.index(tab))
            window.services.saving.guard(partial(self._agree, window))
            return False
        return True

    def _agree(self, window: Window) -> None:
        self._agreed.add(window)
        self._may_end = self._ask_next()
        if self._may_end:
            self.close()
        self._may_end = False

    def changeEvent(self, event: QEvent) -> None:
        """A full screen shows one document without the tabs."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.bar.setVisible(self.count > 1 and not self.isFullScreen())


def _tab_of(spec: str, tabs: Sequence[Tab]) -> Tab | None:
    """The tab in which a project file is open or going to be opened."""
    if not spec.endswith(".espalier"):
        return None
    path = Path(spec).expanduser().resolve()
    return next((t for t in tabs if (s := _source(t)) and Path(s).expanduser().resolve() == path), None)


def _forget_source(tab: Tab) -> None:
    if tab.window is not None and tab.window.session.document is not None:
        tab.spec = ""


def _is_empty(tab: Tab) -> bool:
    return tab.window is not None and not _source(tab) and not tab.window.session.jobs


def _source(tab: Tab) -> str:
    """What is open in a tab, or opened when it is chosen: a path or the name of a source."""
    if tab.window is None:
        return tab.spec
    session = tab.window.session
    document = session.document
    if document is None:
        return next((job.job.spec for job in session.jobs if isinstance(job.job, OpenJob)), tab.spec)
    return tab.window.recovery.source
