"""A chart as a file: PNG at twice its size on screen, SVG, or its figures as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtGui import QPaintDevice
from PySide6.QtWidgets import QWidget

from espalier.app.theme import LIGHT, Palette
from espalier.app.widgets.paper import write_picture, write_rows

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
    """Write what `paint` draws of the widget, or its `table`, by the file's ending; raises FileError."""
    if path.suffix == ".csv":
        names, rows = table()
        write_rows(path, [names, *rows])
    else:
        write_picture(path, widget.size(), paint)
