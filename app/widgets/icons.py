"""The few icons there are: lines of one grey that is legible on both themes, for the file dialogs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from PySide6.QtCore import QFileInfo
from PySide6.QtGui import QAbstractFileIconProvider, QIcon

FOLDER = Path(__file__).resolve().parents[2] / "resources" / "icons"


@cache
def icon(name: str) -> QIcon:
    """The icon of this name."""
    return QIcon(str(FOLDER / f"{name}.svg"))


class FileIcons(QAbstractFileIconProvider):
    """Folder, file or computer, in place of the platform's coloured pictures."""

    def icon(self, given: QFileInfo | QAbstractFileIconProvider.IconType) -> QIcon:
        """The icon of a path or of a kind of place."""
        if isinstance(given, QFileInfo):
            return icon("folder" if given.isDir() else "file")
        kinds = QAbstractFileIconProvider.IconType
        return icon({kinds.Computer: "computer", kinds.File: "file"}.get(given, "folder"))


@cache
def file_icons() -> FileIcons:
    """The one provider: a dialog does not own it, so it must outlive them all."""
    return FileIcons()
