"""Writes pictures and tables to files atomically."""

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
    """Write rows as CSV. Raises FileError."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    write_text(path, text.getvalue())


def write_picture(path: Path, size: QSize, paint: Callable[[QPaintDevice], object]) -> None:
    """Write what `paint` draws in this size, as SVG, or as pixels at twice the size. Raises FileError."""
    if path.suffix == ".svg":
        buffer = _buffer()
        generator = QSvgGenerator()
        generator.setOutputDevice(buffer)
        generator.setSize(size)
        generator.setViewBox(QRectF(0, 0, size.width(), size.height()))
        paint(generator)
        write_bytes(path, bytes(buffer.data().data()))
    else:
        picture = QPixmap(size * 2)
        picture.setDevicePixelRatio(2)
        paint(picture)
        write_image(path, picture)


def write_image(path: Path, picture: QPixmap | QImage) -> None:
    """Write a picture in the format of the path's suffix. Raises FileError, also for an unknown suffix."""
    buffer = _buffer()
    if not picture.save(buffer, path.suffix[1:] or "?"):  # type: ignore[call-overload, arg-type]
        raise FileError(f"{path.name} has no known picture suffix.", "Use .png or .svg.")
    write_bytes(path, bytes(buffer.data().data()))


def _buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return buffer
