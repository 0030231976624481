"""The icons: line drawings in a grey that is legible in both themes, or tinted in the colours of one theme."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QFileInfo, QRectF, Qt
from PySide6.QtGui import QAbstractFileIconProvider, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

FOLDER = Path(__file__).resolve().parents[2] / "resources" / "icons"
GREY = "#7C8794"  # the stroke of the files
RATIOS = (1, 2)  # pixels of the screen per pixel of the window


@cache
def icon(name: str) -> QIcon:
    """The icon of this name."""
    return QIcon(str(FOLDER / f"{name}.svg"))


@cache
def tinted(name: str, off: str, on: str, size: int, disabled: str = "") -> QIcon:
    """The icon of this name, `size` pixels wide, in the colours `off`, `on` (of a checked button) and `disabled`."""
    result, text = QIcon(), (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    looks = [(off, QIcon.Mode.Normal, QIcon.State.Off), (on, QIcon.Mode.Normal, QIcon.State.On)]
    if disabled:
        looks += [(disabled, QIcon.Mode.Disabled, state) for state in (QIcon.State.Off, QIcon.State.On)]
    for colour, mode, state in looks:
        renderer = QSvgRenderer(QByteArray(text.replace(GREY, colour).encode()))
        for ratio in RATIOS:
            picture = QPixmap(size * ratio, size * ratio)
            picture.fill(Qt.GlobalColor.transparent)
            painter = QPainter(picture)
            renderer.render(painter, QRectF(picture.rect()))
            painter.end()
            picture.setDevicePixelRatio(ratio)
            result.addPixmap(picture, mode, state)
    return result


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
