"""Fields for data: where they lie, with what was found there, and lists of their columns and splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QCompleter,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from espalier.app.jobs.previews import Previews
from espalier.app.widgets.forms.fields import Choice, Line
from espalier.app.widgets.forms.folder_field import FolderField
from espalier.app.widgets.icons import file_icons
from espalier.model.data.base import SOURCES
from espalier.model.data.preview import Glance, glance
from espalier.model.errors import EspalierError

PAUSE = 250  # milliseconds after the last key before the files are looked at
FILES = "Data (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet);;All files (*)"
DEMOS = ("demo:reviews", "demo:digits")


class DataField(QWidget):
    """A name, file or folder; `looked` tells what lies there (None while that is not known)."""

    edited = Signal()
    looked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.line = Line("demo:NAME, hub:NAME, a file or a folder")
        self.line.setCompleter(QCompleter([*DEMOS, *_prefixes()], self.line))
        self.wrong = ""  # what is wrong with what was written
        self.found = QLabel(wordWrap=True)
        self.found.setProperty("role", "small")
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, result: self._tell(result))
        self._previews.failed.connect(lambda slot, error: self._fail(error))
        self._wait = QTimer(self, interval=PAUSE, singleShot=True)
        self._wait.timeout.connect(self._look)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.line, 1)
        self._buttons = [self._button(title, folder) for title, folder in (("File…", False), ("Folder…", True))]
        for button in self._buttons:
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self.found)
        self.line.edited.connect(self.edited)
        self.line.edited.connect(self._wait.start)
        self.setFocusProxy(self.line)

    def _button(self, title: str, folder: bool) -> QPushButton:
        button = QPushButton(title, autoDefault=False)
        button.setToolTip(f"Choose a {'folder' if folder else 'file'} of data")
        button.clicked.connect(lambda: self._browse(folder))
        return button

    def narrow(self) -> None:
        """The buttons below the line, for a form that has no room for them beside it."""
        below = QHBoxLayout()
        below.setSpacing(6)
        for button in self._buttons:
            below.addWidget(button)
        below.addStretch(1)
        column = self.layout()
        assert isinstance(column, QVBoxLayout)
        column.insertLayout(1, below)

    def get(self) -> str:
        """What was written."""
        return self.line.get().strip()

    def put(self, value: str) -> None:
        """Show a source, and look at it."""
        self.line.put(value)
        self.line.setCursorPosition(0)
        self._look()

    def _browse(self, folder: bool) -> None:
        dialog = QFileDialog(self, "Choose a folder of data" if folder else "Choose a file of data")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setIconProvider(file_icons())
        dialog.setFileMode(QFileDialog.FileMode.Directory if folder else QFileDialog.FileMode.ExistingFile)
        if not folder:
            dialog.setNameFilter(FILES)
        held = Path(self.get()).expanduser()
        if self.get() and held.exists():
            dialog.setDirectory(str(held if held.is_dir() else held.parent))
        dialog.fileSelected.connect(self._chosen)
        dialog.open()

    def _chosen(self, path: str) -> None:
        self.put(path)
        self.edited.emit()

    def _look(self) -> None:
        self._wait.stop()
        spec = self.get()
        if not spec:
            self._previews.forget("glance")
            self._tell(Glance())
            return
        known = self._previews.ask("glance", spec, lambda stop: glance(spec))
        if known is not None:
            self._tell(known)

    def _tell(self, found: Glance) -> None:
        self._say(found.words)
        self.looked.emit(found)

    def _say(self, words: str, hint: str = "", *, bad: bool = False) -> None:
        """A short line below the field; what to do stands in its tool tip."""
        self.wrong = words if bad else ""
        self.found.setText(words)
        self.found.setToolTip(hint)
        self.found.setVisible(bool(words))
        self.found.setProperty("role", "wrong" if bad else "small")
        self.found.style().unpolish(self.found)
        self.found.style().polish(self.found)

    def tells(self, error: EspalierError) -> bool:
        """Whether this error, or the same within a step, stands below the field already."""
        return bool(self.wrong) and error.message.endswith(self.wrong)

    def _fail(self, error: Exception) -> None:
        message, hint = (error.message, error.hint) if isinstance(error, EspalierError) else (str(error), "")
        self._say(message, hint, bad=True)
        self.looked.emit(Glance())


class NameField(QStackedWidget):
    """A column's or split's name: a list where the data's names are known, else a line.

    Left empty it means `empty`, or where that is none a guess.
    """

    edited = Signal()

    def __init__(self, kind: str, empty: str = "") -> None:
        super().__init__()
        self._kind, self._empty, self._guess = kind, empty, ""
        self.line, self.choice = Line(empty or "inferred"), Choice()
        for widget in (self.line, self.choice):
            self.addWidget(widget)
            widget.edited.connect(self.edited)
        self.line.setAccessibleName(kind)
        self.choice.setAccessibleName(kind)
        self.setFixedHeight(self.choice.height())

    def get(self) -> str:
        """The name; empty leaves the choice to the reader of the data."""
        return (self.choice if self.currentIndex() else self.line).get()

    def put(self, value: str) -> None:
        """Show a name."""
        self.line.put(value)
        if self.currentIndex():
            self._list(self.choice.values, value)

    def show_names(self, found: Glance) -> None:
        """Offer the names that the data have; the present one stays."""
        value = self.get()
        names = found.names(self._kind)
        self.line.put(value)
        self.setCurrentIndex(1 if names else 0)
        self._guess = self._empty or found.guesses.get(self._kind, "")
        if names:
            self._list(("", *names), value)

    def _list(self, names: Iterable[str], value: str) -> None:
        offered = tuple(dict.fromkeys((*names, value)))
        first = f"{self._guess} (by default)" if self._guess else "inferred"
        self.choice.offer(offered, tuple(n or first for n in offered))
        self.choice.put(value)


def data_editor(metadata: Mapping[str, Any]) -> DataField | NameField | FolderField | None:
    """The editor that a field's metadata asks for: `edit` is "data", "folder", "text", "label" or "split".

    `empty` names what a text, label or split that is left empty means.
    """
    kind = metadata.get("edit")
    if kind == "folder":
        return FolderField()
    return DataField() if kind == "data" else NameField(kind, metadata.get("empty", "")) if kind else None


def join(editors: Iterable[object]) -> None:
    """Let the names of a form follow its data."""
    held = list(editors)
    for data in (e for e in held if isinstance(e, DataField)):
        for name in (e for e in held if isinstance(e, NameField)):
            data.looked.connect(name.show_names)


def _prefixes() -> list[str]:
    """Beginnings of names that a user writes."""
    return [f"{prefix}:" for prefix in SOURCES if prefix not in ("demo", "memory")]
