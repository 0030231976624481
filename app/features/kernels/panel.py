"""Panel Kernels: tabs Run, Compile, Profile, Memory and How it works, built lazily from one table."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QScrollArea, QTabBar, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.form_panel import CurrentPageStack

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LEAST = 100  # minimum visible pixels of a page
FORWARDED = ("begun", "node_wanted", "mode_wanted", "pass_wanted", "overlay_changed", "save_wanted", "load_wanted")


@dataclass(frozen=True, slots=True)
class Tab:
    """A page that is imported and built when first shown: class `make` of `module`, constructed with the session."""

    title: str
    module: str
    make: str

    def build(self, session: Session) -> QWidget:
        """Build the page."""
        return getattr(importlib.import_module(self.module), self.make)(session)


TABS: tuple[Tab, ...] = (
    Tab(tr("Run"), "espalier.app.features.kernels.runs", "KernelRuns"),
    Tab(tr("Compile"), "espalier.app.features.kernels.compile", "CompilePage"),
    Tab(tr("Profile"), "espalier.app.features.kernels.profile", "ProfilePage"),
    Tab(tr("Memory"), "espalier.app.features.kernels.memory", "MemoryPage"),
    Tab(tr("How it works"), "espalier.app.features.kernels.explanations", "KernelExplanations"),
)


class _Scrolled(QScrollArea):
    """Pages that fill the available height and scroll below their minimum, so that they never enlarge the window."""

    def __init__(self, pages: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        pages.setProperty("surface", "panel")
        pages.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        pages.setMinimumWidth(1)  # allows narrower than the hint
        self.setWidget(pages)

    def minimumSizeHint(self) -> QSize:
        return QSize(1, LEAST)


class KernelsPanel(QWidget):
    """Pages under a row of tabs; the panel forwards the pages' signals of FORWARDED to the window.

    `overlay_changed`: colour mode and Overlay. `save_wanted`: a Table, a chart or an object with `export`, dialog
    title and file name. `built`: title of a page that was built.
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
        self.bar, self._pages = QTabBar(), CurrentPageStack()
        self.pages: dict[str, QWidget] = {}
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._show)
        self.bar.setExpanding(False)
        self.bar.setDrawBase(False)
        self.bar.setUsesScrollButtons(True)
        self.bar.setElideMode(Qt.TextElideMode.ElideNone)
        self.bar.setAccessibleName(tr("View of the kernels"))
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
        """Title of the current tab."""
        return TABS[self.bar.currentIndex()].title

    def page(self, title: str) -> QWidget:
        """Bring the page of a tab to the front and return it."""
        at = next(i for i, tab in enumerate(TABS) if tab.title == title)
        self.bar.setCurrentIndex(at)
        page = self._page(TABS[at])
        self._pages.setCurrentWidget(page)
        return page

    def prepared(self, title: str) -> QWidget:
        """The page of a tab, built if necessary, without bringing it to the front."""
        return self._page(next(tab for tab in TABS if tab.title == title))

    def _page(self, tab: Tab) -> QWidget:
        if tab.title not in self.pages:
            page = self.pages[tab.title] = tab.build(self._session)
            for name in FORWARDED:
                if hasattr(page, name):
                    getattr(page, name).connect(getattr(self, name))
            self._pages.addWidget(page)
            self.built.emit(tab.title)
        return self.pages[tab.title]

    def _show(self) -> None:
        """Show the current tab's page; pages are built only while the panel is visible."""
        if self.isVisible():
            self._pages.setCurrentWidget(self._page(TABS[self.bar.currentIndex()]))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Build the current page: a paint implies visibility, while docks are shown before they become tabs."""
        super().paintEvent(event)
        if TABS[self.bar.currentIndex()].title not in self.pages:
            self._soon.start()
