"""A field for the path of a folder, with a dialog."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Line
from espalier.app.widgets.icons import file_icons


class FolderField(QWidget):
    """The path of a folder."""

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.line = Line(tr("path of a folder"))
        button = QPushButton(tr("Folder…"), autoDefault=False)
        button.setToolTip(tr("Choose a folder"))
        button.clicked.connect(lambda _: self._browse())
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self.line, 1)
        row.addWidget(button)
        self.line.edited.connect(self.edited)
        self.setFocusProxy(self.line)

    def get(self) -> str:
        """The path as typed."""
        return str(self.line.get()).strip()

    def put(self, value: str) -> None:
        """Show a path."""
        self.line.put(value)
        self.line.setCursorPosition(0)

    def _browse(self) -> None:
        dialog = QFileDialog(self, tr("Choose a folder"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setIconProvider(file_icons())
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        path = Path(self.get()).expanduser()
        if self.get() and path.is_dir():
            dialog.setDirectory(str(path))
        dialog.fileSelected.connect(self._chosen)
        dialog.open()

    def _chosen(self, path: str) -> None:
        self.put(path)
        self.edited.emit()
