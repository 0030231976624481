"""Fields for data: their source with a preview of it, and names of their columns and splits."""

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
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice, Line
from espalier.app.widgets.forms.folder_field import FolderField
from espalier.app.widgets.heading import set_role
from espalier.app.widgets.icons import file_icons
from espalier.model.data.base import SOURCES
from espalier.model.data.preview import DataPreview, preview
from espalier.model.errors import EspalierError

PAUSE = 250  # milliseconds from the last key to reading the files
FILES = tr("Data (*.txt *.md *.csv *.tsv *.json *.jsonl *.ndjson *.parquet);;All files (*)")
DEMOS = ("demo:reviews", "demo:stories", "demo:digits")


class DataField(QWidget):
    """The name, file or folder of data; `previewed` emits their DataPreview, empty if they cannot be read."""

    edited = Signal()
    previewed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.line = Line(tr("demo:NAME, hub:NAME, a file or a folder"))
        self.line.setCompleter(QCompleter([*DEMOS, *_prefixes()], self.line))
        self.wrong = ""  # the error of the source
        self.summary = QLabel(wordWrap=True)
        self.summary.setProperty("role", "small")
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, result: self._show(result))
        self._previews.failed.connect(lambda slot, error: self._fail(error))
        self._read_timer = QTimer(self, interval=PAUSE, singleShot=True)
        self._read_timer.timeout.connect(self._read)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.line, 1)
        self._buttons = [self._button(title, folder) for title, folder in ((tr("File…"), False), (tr("Folder…"), True))]
        for button in self._buttons:
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self.summary)
        self.line.edited.connect(self.edited)
        self.line.edited.connect(self._read_timer.start)
        self.setFocusProxy(self.line)

    def _button(self, title: str, folder: bool) -> QPushButton:
        button = QPushButton(title, autoDefault=False)
        button.setToolTip(tr("Choose a {} of data", tr("folder") if folder else tr("file")))
        button.clicked.connect(lambda: self._browse(folder))
        return button

    def narrow(self) -> None:
        """Move the buttons below the line, for a narrow form."""
        below = QHBoxLayout()
        below.setSpacing(6)
        for button in self._buttons:
            below.addWidget(button)
        below.addStretch(1)
        column = self.layout()
        assert isinstance(column, QVBoxLayout)
        column.insertLayout(1, below)

    def get(self) -> str:
        """The source as typed."""
        return self.line.get().strip()

    def put(self, value: str) -> None:
        """Show a source and read it."""
        self.line.put(value)
        self.line.setCursorPosition(0)
        self._read()

    def _browse(self, folder: bool) -> None:
        dialog = QFileDialog(self, tr("Choose a folder of data") if folder else tr("Choose a file of data"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setIconProvider(file_icons())
        dialog.setFileMode(QFileDialog.FileMode.Directory if folder else QFileDialog.FileMode.ExistingFile)
        if not folder:
            dialog.setNameFilter(FILES)
        path = Path(self.get()).expanduser()
        if self.get() and path.exists():
            dialog.setDirectory(str(path if path.is_dir() else path.parent))
        dialog.fileSelected.connect(self._chosen)
        dialog.open()

    def _chosen(self, path: str) -> None:
        self.put(path)
        self.edited.emit()

    def _read(self) -> None:
        self._read_timer.stop()
        spec = self.get()
        if not spec:
            self._previews.forget("preview")
            self._show(DataPreview())
            return
        cached = self._previews.ask("preview", spec, lambda stop: preview(spec))
        if cached is not None:
            self._show(cached)

    def _show(self, data: DataPreview) -> None:
        self._set_summary(data.description)
        self.previewed.emit(data)

    def _set_summary(self, text: str, hint: str = "", *, bad: bool = False) -> None:
        """Show a line below the field, with `hint` as its tool tip."""
        self.wrong = text if bad else ""
        self.summary.setText(message(text))
        self.summary.setToolTip(message(hint))
        self.summary.setVisible(bool(text))
        set_role(self.summary, "wrong" if bad else "small")

    def shows(self, error: EspalierError) -> bool:
        """Whether this error, or the same error of a step, is already shown below the field."""
        return bool(self.wrong) and error.message.endswith(self.wrong)

    def _fail(self, error: Exception) -> None:
        text, hint = (error.message, error.hint) if isinstance(error, EspalierError) else (str(error), "")
        self._set_summary(text, hint, bad=True)
        self.previewed.emit(DataPreview())


class NameField(QStackedWidget):
    """The name of a column or split: a list of the names in the data, or a line if they are unknown.

    Empty means `empty`, or a guess if that is empty.
    """

    edited = Signal()

    def __init__(self, kind: str, empty: str = "") -> None:
        super().__init__()
        self._kind, self._empty, self._guess = kind, empty, ""
        self.line, self.choice = Line(empty or tr("inferred")), Choice()
        for widget in (self.line, self.choice):
            self.addWidget(widget)
            widget.edited.connect(self.edited)
        self.line.setAccessibleName(tr(kind))
        self.choice.setAccessibleName(tr(kind))
        self.setFixedHeight(self.choice.height())

    def get(self) -> str:
        """The name; empty for the default."""
        return (self.choice if self.currentIndex() else self.line).get()

    def put(self, value: str) -> None:
        """Show a name."""
        self.line.put(value)
        if self.currentIndex():
            self._list(self.choice.values, value)

    def show_names(self, data: DataPreview) -> None:
        """Offer the names in the data; keeps the present one."""
        value = self.get()
        names = data.names(self._kind)
        self.line.put(value)
        self.setCurrentIndex(1 if names else 0)
        self._guess = self._empty or data.guesses.get(self._kind, "")
        if names:
            self._list(("", *names), value)

    def _list(self, names: Iterable[str], value: str) -> None:
        choices = tuple(dict.fromkeys((*names, value)))
        default = tr("{} (default)", self._guess) if self._guess else "inferred"
        self.choice.offer(choices, tuple(n or default for n in choices))
        self.choice.put(value)


def data_editor(metadata: Mapping[str, Any]) -> DataField | NameField | FolderField | None:
    """The editor for a field's metadata: `edit` is "data", "folder", "text", "label" or "split"; None without it.

    `empty`: what an empty text, label or split means.
    """
    kind = metadata.get("edit")
    if kind == "folder":
        return FolderField()
    return DataField() if kind == "data" else NameField(kind, metadata.get("empty", "")) if kind else None


def link_names(editors: Iterable[object]) -> None:
    """Update the names of a form when its data change."""
    fields = list(editors)
    for data in (f for f in fields if isinstance(f, DataField)):
        for name in (f for f in fields if isinstance(f, NameField)):
            data.previewed.connect(name.show_names)


def _prefixes() -> list[str]:
    """The prefixes of data sources that a user can type."""
    return [f"{prefix}:" for prefix in SOURCES if prefix not in ("demo", "memory")]
