"""Writes a chart as PNG at twice its size on screen, as SVG, or its values as CSV or text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint
from PySide6.QtGui import QPaintDevice, QPainter, QRegion
from PySide6.QtWidgets import QWidget

from espalier.app.theme import LIGHT, Palette
from espalier.app.widgets.drag_handle import DragHandle, offer_picture
from espalier.app.widgets.file_export import write_picture, write_rows

Table = tuple[tuple[str, ...], Sequence[Sequence[object]]]


@contextmanager
def light_theme(chart: Any, path: Path) -> Iterator[None]:
    """Give a chart the light theme while it is written as a picture."""
    palette: Palette = chart.look
    if not palette.dark or path.suffix == ".csv":
        yield
        return
    chart.set_theme(LIGHT)
    try:
        yield
    finally:
        chart.set_theme(palette)


def write_chart(widget: QWidget, path: Path, table: Callable[[], Table], paint: Callable[[QPaintDevice], None]) -> None:
    """Write what `paint` draws, or for .csv the `table`, by the suffix of the path. Raises FileError."""
    if path.suffix == ".csv":
        names, rows = table()
        write_rows(path, [names, *rows])
    else:
        write_picture(path, widget.size(), paint)


def table_text(table: Table, delimiter: str) -> str:
    """A table of values as delimited text, with a header line."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([table[0], *table[1]])
    return out.getvalue()


def offer_chart(chart: Any) -> DragHandle:
    """Let a chart with `export` and `table` be dragged out and copied."""
    return offer_picture(chart, lambda c, path: c.export(path), lambda c, mark: table_text(c.table(), mark))


def write_widget(widget: QWidget, path: Path) -> None:
    """Write a picture that a widget paints, without its children, by the suffix of the path. Raises FileError."""

    def paint(device: QPaintDevice) -> None:
        painter = QPainter(device)
        widget.render(painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawWindowBackground)
        painter.end()

    write_picture(path, widget.size(), paint)
