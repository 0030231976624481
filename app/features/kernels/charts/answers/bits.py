"""The bits of an MXINT8 code on their way into a bfloat16; a click on a stored bit turns it over."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPolygonF

from espalier.app.features.kernels.charts.answers.picture import CENTRE, Picture, Sheet
from espalier.app.widgets.bits import COLOURS
from espalier.app.widgets.charts.picture import Table
from espalier.kernels.bench.answers.bits import Dequantised, bfloat16, dequantised, steps

NAMED = 112.0  # pixels of the names at the left
SIGN, INTEGER, FRACTION, EXPONENT = (COLOURS[k] for k in ("sign", "integer", "fraction", "exponent"))
CODE = (SIGN, INTEGER, *[FRACTION] * 6)
FLOAT = (SIGN, *[EXPONENT] * 8, *[FRACTION] * 7)
MOST = 24.0


def exact(value: float) -> str:
    """A value with all its digits, as far as they are few."""
    if value != value:
        return "NaN"
    text = f"{value:.10g}" if 1e-4 <= abs(value) < 1e7 or value == 0 else f"{value:.6e}"
    return text.replace("-", "−").replace("inf", "∞")


class BitsPicture(Picture):
    """`turned`: a code and an exponent that a click made."""

    NAME = "Bits of an MXINT8 code and of the bfloat16 made of it"
    LEAST = QSize(460, 165)
    turned = Signal(int, int)

    def __init__(self) -> None:
        self.held = dequantised(-75, 125)
        self._cells: list[tuple[QRectF, int, bool]] = []  # box, bit, whether of the code
        super().__init__()
        self.setMouseTracking(True)
        self.setToolTip("Click a bit of the mantissa or of the exponent to turn it over")

    def show_code(self, held: Dequantised) -> None:
        """Draw another code."""
        self.held = held
        told = [f"{s.name}: {s.text} {s.bits}" for s in steps(held)]
        self.setAccessibleDescription("; ".join(told))
        self.update()

    def draw(self, sheet: Sheet) -> None:
        """Stored bytes, sign and size, what is built, what is taken off, the result."""
        held = self.held
        pitch = min(MOST, (sheet.width - NAMED - 24) / 17)
        high = min(34.0, max(24.0, (sheet.height - 40) / 6))
        bit = min(18.0, high - 8)
        rows = [6 + i * high for i in range(6)]
        self._cells = []
        self._stored(sheet, rows[0], pitch, bit)
        size = self._size(sheet, rows[1], pitch, bit)
        built = self._float(sheet, rows[2], pitch, bit, "bfloat16 built", held.built, True)
        self._moves(sheet, size, built)
        self._need(sheet, rows[3], bit)
        self._float(sheet, rows[4], pitch, bit, "bias", held.bias, not held.integer_bit)
        self._result(sheet, rows[5], sheet.height - rows[5])

    def _name(self, sheet: Sheet, y: float, bit: float, words: str) -> None:
        sheet.text(QRectF(8, y, NAMED - 12, bit), words, sheet.look.muted)

    def _bit(self, sheet: Sheet, box: QRectF, value: str, colour: str, live: bool = True) -> None:
        """A one is filled, a zero has its colour at the edge only."""
        plain = sheet.colour(colour)
        if not live:
            plain.setAlpha(90)
        one = value == "1"
        sheet.box(box, plain if one else sheet.look.panel, plain.name(plain.NameFormat.HexArgb), 1.2, 2.5)
        ground = "#14171A" if colour == EXPONENT or sheet.look.dark else "#FFFFFF"
        words = (ground if one else sheet.look.text) if live else sheet.look.muted
        sheet.text(box, value, words, 11, CENTRE, bold=one)

    def _stored(self, sheet: Sheet, y: float, pitch: float, bit: float) -> None:
        held = self.held
        self._name(sheet, y, bit, "stored m, s")
        for i, value in enumerate(f"{held.byte:08b}"):
            box = QRectF(NAMED + i * pitch, y, pitch - 2, bit)
            self._bit(sheet, box, value, CODE[i])
            self._cells.append((box, 7 - i, True))
        for i, value in enumerate(f"{held.stored:08b}"):
            box = QRectF(NAMED + (i + 9) * pitch, y, pitch - 2, bit)
            self._bit(sheet, box, value, EXPONENT)
            self._cells.append((box, 7 - i, False))
        room = QRectF(NAMED + 17.4 * pitch, y, sheet.width - NAMED - 17.4 * pitch - 6, bit)
        sheet.text(room, f"m = {exact(held.code)}, s = {held.stored}", sheet.look.muted)

    def _size(self, sheet: Sheet, y: float, pitch: float, bit: float) -> QPointF:
        """Sign, bit 6 and fraction of the size; where the fraction begins."""
        held = self.held
        self._name(sheet, y, bit, "sign, |m|")
        for i, value in enumerate(f"{int(held.negative)}{held.size & 127:07b}"):
            self._bit(sheet, QRectF(NAMED + i * pitch, y, pitch - 2, bit), value, CODE[i])
        room = QRectF(NAMED + 9 * pitch, y, sheet.width - NAMED - 9 * pitch - 6, bit)
        text = f"|m| = {held.size}: bit 6 is the integer bit, six bits of fraction"
        sheet.text(room, text, sheet.look.muted)
        return QPointF(NAMED + 2 * pitch, y + bit)

    def _float(
        self, sheet: Sheet, y: float, pitch: float, bit: float, name: str, bits: int, live: bool
    ) -> QPointF:  # fmt: skip
        self._name(sheet, y, bit, name)
        for i, value in enumerate(f"{bits:016b}"):
            self._bit(sheet, QRectF(NAMED + i * pitch, y, pitch - 2, bit), value, FLOAT[i], live)
        room = QRectF(NAMED + 17.4 * pitch, y, sheet.width - NAMED - 17.4 * pitch - 6, bit)
        sheet.text(room, f"= {exact(bfloat16(bits))}" + ("" if live else ", not needed"),
                   sheet.look.text if live else sheet.look.muted, bold=live)  # fmt: skip
        return QPointF(NAMED + 9 * pitch, y)

    @staticmethod
    def _moves(sheet: Sheet, start: QPointF, end: QPointF) -> None:
        """The six bits of fraction go into the float's: a band from one to the other."""
        wide = 6 * (end.x() - NAMED) / 9 - 2
        corners = (start, start + QPointF(wide, 0), end + QPointF(wide, 0), end)
        band = sheet.colour(FRACTION)
        band.setAlpha(60)
        sheet.painter.setPen(Qt.PenStyle.NoPen)
        sheet.painter.setBrush(band)
        sheet.painter.drawPolygon(QPolygonF(list(corners)))

    def _need(self, sheet: Sheet, y: float, bit: float) -> None:
        held = self.held
        self._name(sheet, y, bit, "dont_need_abs")
        text = "1: bit 6 is set, so the one that a float implies is real" if held.integer_bit else (
            "0: bit 6 is not set, so the implied one is too much: bias is taken off")  # fmt: skip
        sheet.text(QRectF(NAMED, y, sheet.width - NAMED - 8, bit), text, bold=True)

    def _result(self, sheet: Sheet, y: float, room: float) -> None:
        held, look = self.held, sheet.look
        self._name(sheet, y, 18, "result")
        how = "built" if held.integer_bit else "built − bias"
        used = sheet.text(QRectF(NAMED, y, sheet.width - NAMED - 8, 18), f"{how} = {exact(held.result)}", size=14,
                          bold=True)  # fmt: skip
        x = NAMED + used + 16
        word = "✓ as defined:" if held.agrees else "✗ defined:"
        sheet.text(QRectF(x, y, sheet.width - x - 6, 18),
                   f"{word} {exact(held.code)}/64·2^({held.stored} − 127) = {exact(held.defined)}",
                   look.good if held.agrees else look.bad, 12)  # fmt: skip
        if held.why_not and room >= 36:
            sheet.text(QRectF(8, y + 19, sheet.width - 14, 16), held.why_not, look.bad)

    # -- turning bits over

    def _at(self, place: QPointF) -> tuple[int, bool] | None:
        return next(((bit, code) for box, bit, code in self._cells if box.contains(place)), None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self._at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self._at(event.position())
        if found is None:
            return
        byte, stored = self.held.byte, self.held.stored
        byte, stored = (byte ^ 1 << found[0], stored) if found[1] else (byte, stored ^ 1 << found[0])
        self.turned.emit(byte - 256 if byte > 127 else byte, stored)

    def table(self) -> Table:
        """A row a step."""
        return ("step", "what", "bits", "value"), [(s.name, s.text, s.bits, s.value) for s in steps(self.held)]
