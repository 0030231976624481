"""Writes a chart as PNG at twice its size on screen, as SVG, or its values as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtGui import QPaintDevice
from PySide6.QtWidgets import QWidget

from espalier.app.theme import LIGHT, Palette
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
