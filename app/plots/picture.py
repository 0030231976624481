"""A chart as a file: PNG at twice its size on screen, SVG, or its figures as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPaintDevice, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app.theme import LIGHT, Palette

Table = tuple[tuple[str, ...], Sequence[Sequence[object]]]


@contextmanager
def in_light(chart: Any, path: Path) -> Iterator[None]:
    """Pictures are for paper: they have the light theme, whatever the window has."""
    held: Palette = chart.look
    if not held.dark or path.suffix == ".csv":
        yield
        return
    chart.set_theme(LIGHT)
    try:
        yield
    finally:
        chart.set_theme(held)


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
