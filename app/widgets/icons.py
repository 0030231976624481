"""The icons of the file dialogs: line drawings in a grey that is legible in both themes."""

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
    """Provides these icons instead of the platform's."""

    def icon(self, what: QFileInfo | QAbstractFileIconProvider.IconType) -> QIcon:
        """The icon of a path or of a kind of location."""
        if isinstance(what, QFileInfo):
            return icon("folder" if what.isDir() else "file")
        kinds = QAbstractFileIconProvider.IconType
        return icon({kinds.Computer: "computer", kinds.File: "file"}.get(what, "folder"))


@cache
def file_icons() -> FileIcons:
    """The shared provider; dialogs do not own it, so it must outlive them."""
    return FileIcons()
