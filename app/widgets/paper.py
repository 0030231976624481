"""Pictures and figures as files: whole or not at all, which Qt by itself does not know."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, QRectF, QSize
from PySide6.QtGui import QImage, QPaintDevice, QPixmap
from PySide6.QtSvg import QSvgGenerator

from espalier.model.errors import FileError
from espalier.model.files import write_bytes, write_text


def write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write figures as CSV; raises FileError."""
    held = io.StringIO()
    csv.writer(held).writerows(rows)
    write_text(path, held.getvalue())


def write_picture(path: Path, size: QSize, paint: Callable[[QPaintDevice], object]) -> None:
    """Write what `paint` draws in this size, as SVG or in twice as many pixels; raises FileError."""
    if path.suffix == ".svg":
        held = _buffer()
        made = QSvgGenerator()
        made.setOutputDevice(held)
        made.setSize(size)
        made.setViewBox(QRectF(0, 0, size.width(), size.height()))
        paint(made)
        write_bytes(path, bytes(held.data().data()))
    else:
        picture = QPixmap(size * 2)
        picture.setDevicePixelRatio(2)
        paint(picture)
        write_image(path, picture)


def write_image(path: Path, picture: QPixmap | QImage) -> None:
    """Write a picture in the form that the path's ending names; raises FileError, also for an unknown one."""
    held = _buffer()
    if not picture.save(held, path.suffix[1:] or "?"):  # type: ignore[call-overload, arg-type]
        raise FileError(f"{path.name} names no kind of picture.", "End it in .png or .svg.")
    write_bytes(path, bytes(held.data().data()))


def _buffer() -> QBuffer:
    held = QBuffer()
    held.open(QIODevice.OpenModeFlag.WriteOnly)
    return held
