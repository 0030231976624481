"""The welcome page: sources to open, demo projects, recent files and unsaved work of a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from espalier.app.number_text import cell, count, percent
from espalier.app.session.recovery import UnsavedProject
from espalier.app.settings import Settings, is_missing, is_path
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided, column_of, heading, link, muted, row_of
from espalier.model.borders import read_json, tried
from espalier.model.sources.demos import DEMOS

WIDTH, COLUMNS = 860, 2
KINDS = tr(
    "A Hugging Face folder, hf:NAME, config:bert?num_hidden_layers=2, file.py:factory, model.pt2 or a project. "
    "Or drop a file or folder anywhere on this window."
)


@dataclass(frozen=True, slots=True)
class Card:
    """A demo project: its source, title, description and figures (accuracy, size)."""

    spec: str
    title: str
    description: str
    figures: str


def cards() -> list[Card]:
    """The demos whose weights are installed, in the order of the registry."""
    demos = [d for d in DEMOS.values() if (d.folder / "model.safetensors").exists()]
    return [Card(f"demo:{d.name}", tr(d.title), tr(d.description), _figures(d.folder / "card.json")) for d in demos]


def _figures(path: Path) -> str:
    """Accuracy or perplexity on the test split, and parameters, of the model card; empty if it cannot be read."""

    def read() -> str:
        data = read_json(path)
        texts = data.get("perplexity")
        score = tr("{} held-out perplexity", cell(texts["test"])) if texts else None
        score = score or tr("{} held-out accuracy", percent(data["accuracy"]["test"]))
        return tr("{}\n{} parameters", score, count(data["parameters"]))

    return tried(read, "")


class CardButton(QFrame):
    """A card that a click, Enter or Space opens."""

    chosen = Signal(str)

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._spec = card.spec
        self.setProperty("card", True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(tr("Open {}", card.title))
        title = QLabel(card.title)
        title.setProperty("role", "strong")
        figures = QLabel(card.figures, wordWrap=True)
        figures.setProperty("role", "small")
        name = QLabel(card.spec)
        name.setProperty("role", "small")
        box = QVBoxLayout(self)
        box.setContentsMargins(14, 12, 14, 12)
        box.setSpacing(5)
        box.addWidget(title)
        box.addWidget(muted(card.description))
        box.addStretch(1)
        box.addWidget(figures)
        box.addWidget(name)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.chosen.emit(self._spec)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit(self._spec)
        else:
            super().keyPressEvent(event)


class WelcomePage(QScrollArea):
    """The page shown while no model is open."""

    open_wanted = Signal(str)
    browse_wanted = Signal()
    folder_wanted = Signal()
    recover_wanted = Signal(object)
    discard_wanted = Signal(object)

    def __init__(self, settings: Settings) -> None:
        super().__init__(widgetResizable=True)
        self._settings = settings
        self.spec = QLineEdit(placeholderText=tr("A file, a folder or a name"))
        self.spec.setAccessibleName(tr("Model to open"))
        self.spec.setFixedHeight(28)
        self.spec.returnPressed.connect(self._open_spec)
        self._recent, self._unsaved = column_of(1), column_of(6)
        page = QWidget()
        page.setProperty("surface", "background")
        column = QWidget()
        column.setMaximumWidth(WIDTH)
        box = QVBoxLayout(column)
        box.setContentsMargins(24, 44, 24, 32)
        box.setSpacing(10)
        self._fill(box)
        row = QHBoxLayout(page)
        row.addStretch(1)
        row.addWidget(column, 20)
        row.addStretch(1)
        self.setWidget(page)
        self.refresh([])

    def _fill(self, box: QVBoxLayout) -> None:
        name = QLabel("Espalier")
        name.setProperty("role", "display")
        box.addWidget(name)
        box.addWidget(
            muted(
                tr(
                    "Open a neural network, see it as a graph, shape it layer by layer, "
                    "and see at once what that costs."
                )
            )
        )
        box.addSpacing(6)
        box.addLayout(self._unsaved)
        box.addLayout(self._openers())
        box.addWidget(muted(KINDS))
        box.addSpacing(14)
        box.addWidget(heading(tr("Demo projects")))
        box.addWidget(self._demos())
        box.addSpacing(14)
        box.addWidget(heading(tr("Recent")))
        box.addLayout(self._recent)
        box.addStretch(1)

    def _openers(self) -> QHBoxLayout:
        row = row_of(8)
        open_spec = QPushButton(tr("Open"))
        open_spec.setProperty("primary", True)
        open_spec.clicked.connect(self._open_spec)
        browse, folder = QPushButton(tr("Open file…")), QPushButton(tr("Open folder…"))
        browse.clicked.connect(self.browse_wanted)
        folder.clicked.connect(self.folder_wanted)
        row.addWidget(self.spec, 1)
        for button in (open_spec, browse, folder):
            row.addWidget(button)
        return row

    def _demos(self) -> QWidget:
        demos = cards()
        if not demos:
            return muted(tr("No demo project is installed."))
        host = QWidget()
        grid = QGridLayout(host)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(12)
        for i, card in enumerate(demos):
            button = CardButton(card)
            button.chosen.connect(self.open_wanted)
            grid.addWidget(button, *divmod(i, COLUMNS))
            grid.setColumnStretch(i % COLUMNS, 1)
        return host

    def _open_spec(self) -> None:
        text = self.spec.text().strip()
        if text:
            self.open_wanted.emit(text)
        else:
            self.spec.setFocus()

    def refresh(self, leftovers: list[UnsavedProject]) -> None:
        """Show the current recent files and the given unsaved work."""
        _empty(self._recent)
        for spec in self._settings.recent:
            self._recent.addWidget(self._recent_row(spec))
        if not self._settings.recent:
            self._recent.addWidget(muted(tr("No recent files yet.")))
        _empty(self._unsaved)
        for leftover in leftovers:
            self._unsaved.addWidget(self._leftover_row(leftover))

    def _recent_row(self, spec: str) -> QWidget:
        name = Path(spec).name if is_path(spec) else spec
        path = Elided(spec if is_path(spec) else "", "muted")
        if not is_missing(spec):
            return _line(link(name if len(name) < 90 else f"{name[:88]}…", lambda: self.open_wanted.emit(spec)), path)
        missing = muted(tr("{} is missing", name), wrap=False)
        missing.setContentsMargins(5, 3, 0, 3)
        return _line(missing, path, link(tr("Remove"), lambda: self._remove(spec)))

    def _remove(self, spec: str) -> None:
        self._settings.remove_recent(spec)
        self.refresh([])

    def _leftover_row(self, leftover: UnsavedProject) -> QWidget:
        frame = QFrame()
        frame.setProperty("card", True)
        texts = column_of(2)
        title = QLabel(tr("Unsaved work on {}", leftover.title))
        title.setProperty("role", "strong")
        texts.addWidget(title)
        texts.addWidget(muted(tr("Espalier ended without saving. Can be recovered: {}.", leftover.summary)))
        row = QHBoxLayout(frame)
        row.setContentsMargins(14, 10, 10, 10)
        row.addLayout(texts, 1)
        if leftover.opens:
            row.addWidget(link(tr("Recover"), lambda: self.recover_wanted.emit(leftover)))
        row.addWidget(link(tr("Discard"), lambda: self.discard_wanted.emit(leftover)))
        return frame


def _line(*widgets: QWidget) -> QWidget:
    host = QWidget()
    row = QHBoxLayout(host)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(10)
    for widget in widgets:
        row.addWidget(widget)
    row.addStretch(1)
    return host


def _empty(layout: QVBoxLayout) -> None:
    while item := layout.takeAt(0):
        if widget := item.widget():
            widget.hide()
            widget.deleteLater()
