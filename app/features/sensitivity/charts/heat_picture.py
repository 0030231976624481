"""Export of the whole heat map as a picture or a table."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPaintDevice, QPainter

from espalier.app.features.sensitivity.charts.heat import BAR, in_two, paint_cell, paint_scale, paints
from espalier.app.figures.heat_lines import Heat, Line, divergence_text
from espalier.app.theme import BODY, LIGHT, ROW, Palette
from espalier.app.translation import tr
from espalier.app.widgets.file_export import write_picture, write_rows
from espalier.passes.sensitivity.table import Sensitivity

EDGE, HEAD, FOOT, CELL = 12, 40, 30, 58
HEADINGS = ("node", "port", "elements", "format", "sparsity", "method", "bits", "predicted", "measured", "noise")
Middle, Left = Qt.AlignmentFlag.AlignCenter, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def export_heat(path: Path, heat: Heat, font: QFont) -> None:
    """Export the map as arranged, in the light theme, to a .png (twice the size), .svg or .csv file; raises
    FileError."""
    if path.suffix == ".csv":
        save_rows(path, tuple(line.row for line in heat.lines if line.row))
        return
    face = QFont(font)
    face.setPixelSize(round(BODY))
    names = max((QFontMetrics(face).horizontalAdvance(_title(line)) for line in heat.lines), default=0) + 16
    low, high = _ends(heat)
    foot = BAR + 12 + QFontMetrics(face).horizontalAdvance(low + high) + 4
    size = QSize(
        2 * EDGE + max(names + CELL * len(heat.columns), foot), 2 * EDGE + HEAD + ROW * len(heat.lines) + FOOT
    )  # fmt: skip
    write_picture(path, size, lambda device: _paint(device, heat, LIGHT, face, names, size))


def save_rows(path: Path, rows: tuple[Sensitivity, ...]) -> None:
    """Write one row per port and candidate."""
    write_rows(path, [HEADINGS, *(cells for row in rows for cells in _cells(row))])


def _title(line: Line) -> str:
    return f"{line.title} · {line.port}" if line.port else line.title


def _cells(row: Sensitivity) -> list[tuple[object, ...]]:
    return [
        (row.node, row.port, row.elements, str(c.format) if c.format else "float", c.sparsity,
         c.method if c.sparsity else "", c.format.bits if c.format else 32, predicted,
         "" if measured is None else measured, noise)
        for c, predicted, measured, noise in zip(
            row.candidates, row.predicted, row.measured, row.noise, strict=True
        )
    ]  # fmt: skip


def _paint(device: QPaintDevice, heat: Heat, look: Palette, font: QFont, names: int, size: QSize) -> None:
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.fillRect(QRectF(0, 0, size.width(), size.height()), QColor(look.panel))
    painter.setFont(font)
    left, top = EDGE + names, EDGE + HEAD
    painter.setPen(QColor(look.text))
    for j, column in enumerate(heat.columns):
        painter.drawText(QRectF(left + j * CELL, EDGE, CELL, HEAD - 4), Middle, in_two(column.title))
    for i, line in enumerate(heat.lines):
        painter.setPen(QColor(look.text if line.row else look.muted))
        painter.drawText(QRectF(EDGE, top + i * ROW, names, ROW), Left, _title(line))
        for j, cell in enumerate(paints(heat, line, look)):
            if cell is not None:
                paint_cell(painter, QRect(left + j * CELL, top + i * ROW, CELL, ROW), cell)
    _foot(painter, heat, look, top + ROW * len(heat.lines) + 10)
    painter.end()


def _ends(heat: Heat) -> tuple[str, str]:
    """Texts before and after the colour scale."""
    return divergence_text(heat.low), tr("{} nats of KL divergence; a dot: measured", divergence_text(heat.high))


def _foot(painter: QPainter, heat: Heat, look: Palette, top: float) -> None:
    low, high = _ends(heat)
    wide = painter.fontMetrics().horizontalAdvance(low) + 6
    painter.setPen(QColor(look.muted))
    painter.drawText(QRectF(EDGE, top, wide, 20), Left, low)
    painter.drawText(QRectF(EDGE + wide + BAR + 6, top, 500, 20), Left, high)
    paint_scale(painter, QRectF(EDGE + wide, top + 5, BAR, 10), look)
