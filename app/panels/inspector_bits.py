"""The layout of a format's bits, drawn to scale: sign, integer, exponent and fraction bits, shared fields."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import CATEGORIES
from model.formats.base import Format

SIGN, WHOLE, FRACTION = CATEGORIES["activation"], CATEGORIES["matmul"], CATEGORIES["linear"]
EXPONENT, SHARED, CODE = CATEGORIES["norm"], CATEGORIES["embedding"], CATEGORIES["io"]
SUPERSCRIPTS = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST = 40


class Field(NamedTuple):
    """Bits of one meaning. `shared`: stored once for so many elements."""

    colour: str
    mark: str
    bits: int
    meaning: str
    shared: int = 0


def layout_of(fmt: Format) -> list[Field]:
    """The fields of one element, most significant first."""
    width = int(getattr(fmt, "width", 0) or 0)
    if hasattr(fmt, "frac_width") and width:
        return _fixed_point(width, fmt.frac_width, bool(getattr(fmt, "signed", True)))  # type: ignore[attr-defined]
    return _own(fmt, width) + _shared(fmt)


def _fixed_point(width: int, frac: int, signed: bool) -> list[Field]:
    rest = width - signed
    fraction = min(max(frac, 0), rest)
    fields = [Field(SIGN, "±", 1, "sign")] if signed else []
    if rest > fraction:
        fields.append(Field(WHOLE, "i", rest - fraction, "integer bits"))
    return fields + ([Field(FRACTION, "·f", fraction, "fraction bits")] if fraction else [])


def _own(fmt: Format, width: int) -> list[Field]:
    element = str(getattr(fmt, "element", ""))
    if len(element) == 4 and element[0] == "e" and element[2] == "m":
        return _floating(int(element[1]), int(element[3]))
    block = hasattr(fmt, "block")
    exponent = 0 if block else int(getattr(fmt, "exponent_width", 0) or 0)
    if fmt.name in ("block_minifloat",):
        exponent = int(getattr(fmt, "exponent_width", 0) or 0)
    if exponent and width > exponent:
        return _floating(exponent, width - exponent - 1)
    bits = width or max(1, math.floor(fmt.bits))
    if "log" in fmt.name:
        return [Field(SIGN, "±", 1, "sign"), Field(EXPONENT, "e", bits - 1, "exponent bits")] if bits > 1 else []
    if bits == 1:
        return [Field(SIGN, "±", 1, "sign")]
    return [Field(SIGN, "±", 1, "sign"), Field(FRACTION, "m", bits - 1, "code bits")]


def _floating(exponent: int, mantissa: int) -> list[Field]:
    fields = [Field(SIGN, "±", 1, "sign"), Field(EXPONENT, "e", exponent, "exponent bits")]
    return fields + ([Field(FRACTION, "m", mantissa, "mantissa bits")] if mantissa else [])


def _shared(fmt: Format) -> list[Field]:
    block: Any = getattr(fmt, "block", None)
    size = math.prod(block) if isinstance(block, tuple) else block
    if not isinstance(size, int) or size < 1:
        return []
    bits = int(
        getattr(fmt, "exponent_bias_width", 0)
        or (getattr(fmt, "exponent_width", 0) if fmt.name == "block_fp" else 0)
        or 8
    )
    return [Field(SHARED, "s", bits, f"scale bits, shared by {size}", size)]


def formula(port: str, fmt: Format) -> str:
    """`weight · value = code · 2⁻⁷ · range −1 … 0.992`."""
    frac = getattr(fmt, "frac_width", None)
    limits = getattr(fmt, "limits", None)
    if frac is None or limits is None:
        return f"{port} · {fmt.formula}"
    low, high = (code * 2.0**-frac for code in limits)
    power = str(-frac).translate(SUPERSCRIPTS)
    return f"{port} · value = code · 2{power} · range {figure(low)} … {figure(high)}"


def figure(value: float) -> str:
    """A value with three digits and a true minus."""
    return f"{value:.3g}".replace("-", "−")


class BitsBar(QWidget):
    """One cell a bit, as wide as the panel."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[Field] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_format(self, fmt: Format | None) -> None:
        """Draw a format's bits; none for float."""
        self.fields = layout_of(fmt) if fmt else []
        words = ", ".join(f"{f.bits} {f.meaning}" for f in self.fields)
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, 20)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        cells = [(f, i) for f in self.fields for i in range(f.bits)][:MOST]
        if not cells:
            return
        gap = 8.0 if any(f.shared for f in self.fields) and not self.fields[0].shared else 0.0
        room = self.width() - gap
        space = 2.0 if room / len(cells) > 8 else 1.0
        pitch = (room + space) / len(cells)
        font = painter.font()
        font.setPixelSize(10)
        painter.setFont(font)
        for number, (field, _) in enumerate(cells):
            left = number * pitch + (gap if field.shared else 0)
            self._cell(painter, QRectF(left, 0.5, pitch - space, self.height() - 1), field)

    def _cell(self, painter: QPainter, box: QRectF, field: Field) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(field.colour))
        painter.drawRoundedRect(box, 2.5, 2.5)
        if box.width() >= 12:
            painter.setPen(QColor("#14171A" if field.colour == EXPONENT else "#FFFFFF"))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, field.mark)
