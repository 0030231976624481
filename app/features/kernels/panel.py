"""Kernels: what a machine's kernels can do, and why: run, compiled, profiled, explained. Its tabs are one table."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QScrollArea, QTabBar, QVBoxLayout, QWidget

from espalier.app.widgets.bench import Front

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LEAST = 100  # pixels of a page that are always seen
PASSED_ON = ("begun", "node_wanted", "mode_wanted", "pass_wanted", "overlay_changed", "save_wanted", "load_wanted")


@dataclass(frozen=True, slots=True)
class Tab:
    """A page that is imported and built when it is first seen: `make` of `module` is a widget of a session."""

    title: str
    module: str
    make: str

    def build(self, session: Session) -> QWidget:
        """The page."""
        return getattr(importlib.import_module(self.module), self.make)(session)


TABS: tuple[Tab, ...] = (
    Tab("Run", "espalier.app.features.kernels.runs", "KernelRuns"),
    Tab("Compile", "espalier.app.features.kernels.compile", "CompilePage"),
    Tab("Profile", "espalier.app.features.kernels.profile", "ProfilePage"),
    Tab("Memory", "espalier.app.features.kernels.memory", "MemoryPage"),
    Tab("How it works", "espalier.app.features.kernels.explained", "KernelsExplained"),
)


class _Scrolled(QScrollArea):
    """Pages that are as high as there is room, and scroll where there is less than they need: no page of charts and
    tables makes the bottom of the window grow."""

    def __init__(self, pages: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        pages.setProperty("surface", "panel")
        pages.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        pages.setMinimumWidth(1)  # narrower than it would be, it gives way and is not cut
        self.setWidget(pages)

    def minimumSizeHint(self) -> QSize:
        return QSize(1, LEAST)


class KernelsPanel(QWidget):
    """Pages under a row of tabs. Signals of PASSED_ON that a page has are told by the panel, for the window.

    `overlay_changed`: a mode of the graph's colours and its Overlay. `save_wanted`: what is to be saved (a Table, a
    chart, or something with `export`), a title and a file's name. `built`: a page is there, by its title.
    """

    begun = Signal()
    node_wanted = Signal(str)
    mode_wanted = Signal(str)
    pass_wanted = Signal(str)
    overlay_changed = Signal(str, object)
    save_wanted = Signal(object, str, str)
    load_wanted = Signal()
    built = Signal(str)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.bar, self._pages = QTabBar(), Front()
        self.pages: dict[str, QWidget] = {}
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._show)
        self.bar.setExpanding(False)
        self.bar.setDrawBase(False)
        self.bar.setUsesScrollButtons(True)
        self.bar.setElideMode(Qt.TextElideMode.ElideNone)
        self.bar.setAccessibleName("View of the kernels")
        for tab in TABS:
            self.bar.addTab(tab.title)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.bar)
        box.addWidget(_Scrolled(self._pages), 1)
        self.bar.currentChanged.connect(lambda _: self._show())

    @property
    def title(self) -> str:
        """Of the tab that is chosen."""
        return TABS[self.bar.currentIndex()].title

    def page(self, title: str) -> QWidget:
        """The page of a tab, brought to the front."""
        at = next(i for i, tab in enumerate(TABS) if tab.title == title)
        self.bar.setCurrentIndex(at)
        page = self._page(TABS[at])
        self._pages.setCurrentWidget(page)
        return page

    def prepared(self, title: str) -> QWidget:
        """The page of a tab, wherever it stands: built, but not brought."""
        return self._page(next(tab for tab in TABS if tab.title == title))

    def _page(self, tab: Tab) -> QWidget:
        if tab.title not in self.pages:
            page = self.pages[tab.title] = tab.build(self._session)
            for name in PASSED_ON:
                if hasattr(page, name):
                    getattr(page, name).connect(getattr(self, name))
            self._pages.addWidget(page)
            self.built.emit(tab.title)
        return self.pages[tab.title]

    def _show(self) -> None:
        """Put the chosen tab's page in front; nothing is built for those that nobody sees."""
        if self.isVisible():
            self._pages.setCurrentWidget(self._page(TABS[self.bar.currentIndex()]))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Build what is looked at: a paint is sure to be seen, while docks are shown before they become tabs."""
        super().paintEvent(event)
        if TABS[self.bar.currentIndex()].title not in self.pages:
            self._soon.start()
