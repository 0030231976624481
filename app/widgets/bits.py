"""The bit layout of a number format, drawn to scale: sign, integer, exponent, fraction and shared bits."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from espalier.app.number_text import figure
from espalier.app.theme import CATEGORIES
from espalier.app.translation import tr
from espalier.model.formats.base import BitField, Format

COLOURS: dict[str, str] = {
    "sign": CATEGORIES["activation"], "integer": CATEGORIES["matmul"], "fraction": CATEGORIES["linear"],
    "mantissa": CATEGORIES["linear"], "exponent": CATEGORIES["norm"], "shared": CATEGORIES["embedding"],
}  # fmt: skip
MARKS = {"sign": "±", "integer": "i", "fraction": "·f", "mantissa": "m", "exponent": "e", "shared": "s"}
SUPERSCRIPTS = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MIN_CELL, MIN_TEXT = 8.0, 12.0  # pixels: width of a single cell, and of one with its mark


class Field(NamedTuple):
    """Adjacent bits of one meaning. `shared`: elements that share them, 0 for a row or tensor, None if not shared."""

    colour: str
    mark: str
    bits: int
    meaning: str
    shared: int | None = None


def layout_of(fmt: Format) -> list[Field]:
    """The fields of one element, most significant first, then the shared ones."""
    return [_field(f, fmt) for f in fmt.layout()]


def _field(field: BitField, fmt: Format) -> Field:
    if field.kind != "shared":
        places = max(field.places, field.bits)
        of = tr("of {} ", places) if places > field.bits else ""
        name = tr(field.name)
        bits = tr("{}{} bit", of, name) if places == 1 else tr("{}{} bits", of, name)
        noun = name if field.kind == "sign" else bits
        return Field(COLOURS[field.kind], MARKS[field.kind], field.bits, noun)
    whole = tr("a tensor") if getattr(fmt, "granularity", "tensor") == "tensor" else tr("a row")
    sharers = tr("by {}", field.per) if field.per else tr("by {}", whole)
    return Field(
        COLOURS["shared"], MARKS["shared"], field.bits, tr("{} bits, shared {}", tr(field.name), sharers), field.per
    )


def storage_text(fmt: Format) -> str:
    """`8.25 bits an element: 8 of its own, 8 of the scale shared by 32`."""
    parts = [
        tr("{} of the {}", f.bits, f.meaning.replace(" bits,", "")) for f in layout_of(fmt) if f.shared is not None
    ]
    detail = ", ".join([tr("{} of its own", fmt.element_bits), *parts])
    return tr("{:g} bits an element{}", fmt.bits, f": {detail}" if parts else "")


def legend(fmt: Format) -> str:
    """The legend of the colours, as rich text: `■ sign  ■ 3 integer bits  ■ 4 fraction bits`."""
    names = ((f, f.meaning if f.meaning == "sign" else f"{f.bits} {f.meaning}") for f in layout_of(fmt))
    parts = (f'<span style="color:{f.colour}">■</span>&nbsp;{words.replace(" ", "&nbsp;")}' for f, words in names)
    return " &nbsp; ".join(parts)


def formula(port: str, fmt: Format) -> str:
    """`weight · value = code · 2⁻⁷ · range −1 … 0.992`."""
    frac = getattr(fmt, "frac_width", None)
    limits = getattr(fmt, "limits", None)
    if frac is None or limits is None:
        return f"{port} · {fmt.formula}"
    low, high = (code * 2.0**-frac for code in limits)
    power = str(-frac).translate(SUPERSCRIPTS)
    return tr("{} · value = code · 2{} · range {} … {}", port, power, figure(low), figure(high))


class BitsBar(QWidget):
    """Draws one cell per bit over the whole width."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[Field] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_format(self, fmt: Format | None) -> None:
        """Draw the bits of a format; nothing for float."""
        self.fields = layout_of(fmt) if fmt else []
        words = ", ".join(f"1 {f.meaning}" if f.meaning == tr("sign") else f"{f.bits} {f.meaning}" for f in self.fields)
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
        count = sum(f.bits for f in self.fields)
        if not count:
            return
        own = [f.shared is None for f in self.fields]
        gap = 8.0 if any(own) and not all(own) else 0.0
        pitch = (self.width() - gap) / count
        space = 2.0 if pitch > MIN_CELL + 2 else 1.0
        font = painter.font()
        font.setPixelSize(10)
        painter.setFont(font)
        left = 0.0
        for shared, fields in groupby(self.fields, lambda f: f.shared is not None):
            left += gap if shared else 0.0
            for field in fields:
                cells = field.bits if pitch >= MIN_CELL else 1
                for i in range(cells):
                    width = pitch * field.bits / cells
                    self._cell(painter, QRectF(left + i * width, 0.5, width - space, self.height() - 1), field, cells)
                left += pitch * field.bits

    def _cell(self, painter: QPainter, box: QRectF, field: Field, cells: int) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(field.colour))
        painter.drawRoundedRect(box, 2.5, 2.5)
        if box.width() >= MIN_TEXT:
            painter.setPen(QColor("#14171A" if field.colour == COLOURS["exponent"] else "#FFFFFF"))
            text = field.mark if cells == field.bits else f"{field.mark} {field.bits}"
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text if box.width() >= 2 * MIN_TEXT else field.mark)
