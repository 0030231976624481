"""A chart as a file: PNG at twice its size on screen, SVG, or its figures as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPaintDevice, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

Table = tuple[tuple[str, ...], Sequence[Sequence[object]]]


def write_chart(widget: QWidget, path: Path, table: Callable[[], Table], paint: Callable[[QPaintDevice], None]) -> None:
    """Write what `paint` draws of the widget, or its `table`, by the file's ending; raises OSError."""
    if path.suffix == ".csv":
        names, rows = table()
        with path.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([names, *rows])
    elif path.suffix == ".svg":
        made = QSvgGenerator()
        made.setFileName(str(path))
        made.setSize(widget.size())
        made.setViewBox(QRectF(widget.rect()))
        paint(made)
    else:
        picture = QPixmap(widget.size() * 2)
        picture.setDevicePixelRatio(2)
        paint(picture)
        picture.save(str(path))
