"""Picture of the dequantisation of an MXINT8 code to bfloat16, bit by bit; a click flips a stored bit."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPolygonF

from espalier.app.features.kernels.charts.answers.picture import CENTRE, Picture, Sheet
from espalier.app.translation import message, tr
from espalier.app.widgets.bits import COLOURS
from espalier.app.widgets.charts.chart_export import Table
from espalier.kernels.bench.answers.bits import Dequantisation, bfloat16, dequantise, steps

NAMED = 112.0  # pixels of the name column
SIGN, INTEGER, FRACTION, EXPONENT = (COLOURS[k] for k in ("sign", "integer", "fraction", "exponent"))
CODE = (SIGN, INTEGER, *[FRACTION] * 6)
FLOAT = (SIGN, *[EXPONENT] * 8, *[FRACTION] * 7)
MAX_PITCH = 24.0


def exact(value: float) -> str:
    """A value with up to ten digits."""
    if value != value:
        return "NaN"
    text = f"{value:.10g}" if 1e-4 <= abs(value) < 1e7 or value == 0 else f"{value:.6e}"
    return text.replace("-", "−").replace("inf", "∞")


class BitsPicture(Picture):
    """Emits `turned` with the code and exponent after a click has flipped a bit."""

    NAME = tr("Bits of an MXINT8 code and of its bfloat16")
    LEAST = QSize(460, 165)
    turned = Signal(int, int)

    def __init__(self) -> None:
        self.result = dequantise(-75, 125)
        self._cells: list[tuple[QRectF, int, bool]] = []  # box, bit number, whether it is a bit of the code
        super().__init__()
        self.setMouseTracking(True)
        self.setToolTip(tr("Click a bit of the mantissa or of the exponent to flip it"))

    def show_code(self, result: Dequantisation) -> None:
        """Draw a code."""
        self.result = result
        parts = [f"{message(s.name)}: {message(s.text)} {s.bits}" for s in steps(result)]
        self.setAccessibleDescription("; ".join(parts))
        self.update()

    def draw(self, sheet: Sheet) -> None:
        """Draw stored bytes, sign and magnitude, the built bfloat16, the bias, and the result."""
        result = self.result
        pitch = min(MAX_PITCH, (sheet.width - NAMED - 24) / 17)
        high = min(34.0, max(24.0, (sheet.height - 40) / 6))
        bit = min(18.0, high - 8)
        rows = [6 + i * high for i in range(6)]
        self._cells = []
        self._draw_stored(sheet, rows[0], pitch, bit)
        size = self._draw_magnitude(sheet, rows[1], pitch, bit)
        built = self._draw_float(sheet, rows[2], pitch, bit, tr("bfloat16 built"), result.built, True)
        self._draw_fraction_band(sheet, size, built)
        self._draw_need(sheet, rows[3], bit)
        self._draw_float(sheet, rows[4], pitch, bit, "bias", result.bias, not result.integer_bit)
        self._draw_result(sheet, rows[5], sheet.height - rows[5])

    def _draw_name(self, sheet: Sheet, y: float, bit: float, text: str) -> None:
        sheet.text(QRectF(8, y, NAMED - 12, bit), text, sheet.look.muted)

    def _draw_bit(self, sheet: Sheet, box: QRectF, value: str, colour: str, live: bool = True) -> None:
        """Draw a bit: 1 filled, 0 outlined."""
        plain = sheet.colour(colour)
        if not live:
            plain.setAlpha(90)
        one = value == "1"
        sheet.box(box, plain if one else sheet.look.panel, plain.name(plain.NameFormat.HexArgb), 1.2, 2.5)
        ground = "#14171A" if colour == EXPONENT or sheet.look.dark else "#FFFFFF"
        ink = (ground if one else sheet.look.text) if live else sheet.look.muted
        sheet.text(box, value, ink, 11, CENTRE, bold=one)

    def _draw_stored(self, sheet: Sheet, y: float, pitch: float, bit: float) -> None:
        result = self.result
        self._draw_name(sheet, y, bit, tr("stored m, s"))
        for i, value in enumerate(f"{result.byte:08b}"):
            box = QRectF(NAMED + i * pitch, y, pitch - 2, bit)
            self._draw_bit(sheet, box, value, CODE[i])
            self._cells.append((box, 7 - i, True))
        for i, value in enumerate(f"{result.stored:08b}"):
            box = QRectF(NAMED + (i + 9) * pitch, y, pitch - 2, bit)
            self._draw_bit(sheet, box, value, EXPONENT)
            self._cells.append((box, 7 - i, False))
        room = QRectF(NAMED + 17.4 * pitch, y, sheet.width - NAMED - 17.4 * pitch - 6, bit)
        sheet.text(room, f"m = {exact(result.code)}, s = {result.stored}", sheet.look.muted)

    def _draw_magnitude(self, sheet: Sheet, y: float, pitch: float, bit: float) -> QPointF:
        """Draw sign, bit 6 and fraction of the magnitude; return the position of the fraction."""
        result = self.result
        self._draw_name(sheet, y, bit, tr("sign, |m|"))
        for i, value in enumerate(f"{int(result.negative)}{result.size & 127:07b}"):
            self._draw_bit(sheet, QRectF(NAMED + i * pitch, y, pitch - 2, bit), value, CODE[i])
        room = QRectF(NAMED + 9 * pitch, y, sheet.width - NAMED - 9 * pitch - 6, bit)
        text = tr("|m| = {}: bit 6 is the integer bit, six bits of fraction", result.size)
        sheet.text(room, text, sheet.look.muted)
        return QPointF(NAMED + 2 * pitch, y + bit)

    def _draw_float(
        self, sheet: Sheet, y: float, pitch: float, bit: float, name: str, bits: int, live: bool
    ) -> QPointF:  # fmt: skip
        self._draw_name(sheet, y, bit, name)
        for i, value in enumerate(f"{bits:016b}"):
            self._draw_bit(sheet, QRectF(NAMED + i * pitch, y, pitch - 2, bit), value, FLOAT[i], live)
        room = QRectF(NAMED + 17.4 * pitch, y, sheet.width - NAMED - 17.4 * pitch - 6, bit)
        sheet.text(room, f"= {exact(bfloat16(bits))}" + ("" if live else tr(", not needed")),
                   sheet.look.text if live else sheet.look.muted, bold=live)  # fmt: skip
        return QPointF(NAMED + 9 * pitch, y)

    @staticmethod
    def _draw_fraction_band(sheet: Sheet, start: QPointF, end: QPointF) -> None:
        """Draw a band from the six fraction bits to those of the float."""
        wide = 6 * (end.x() - NAMED) / 9 - 2
        corners = (start, start + QPointF(wide, 0), end + QPointF(wide, 0), end)
        band = sheet.colour(FRACTION)
        band.setAlpha(60)
        sheet.painter.setPen(Qt.PenStyle.NoPen)
        sheet.painter.setBrush(band)
        sheet.painter.drawPolygon(QPolygonF(list(corners)))

    def _draw_need(self, sheet: Sheet, y: float, bit: float) -> None:
        result = self.result
        self._draw_name(sheet, y, bit, "dont_need_abs")
        text = tr("1: bit 6 is set, so the float's implicit leading one is correct") if result.integer_bit else (
            tr("0: bit 6 is not set, so the implicit leading one is subtracted as bias"))  # fmt: skip
        sheet.text(QRectF(NAMED, y, sheet.width - NAMED - 8, bit), text, bold=True)

    def _draw_result(self, sheet: Sheet, y: float, room: float) -> None:
        result, look = self.result, sheet.look
        self._draw_name(sheet, y, 18, "result")
        how = "built" if result.integer_bit else tr("built − bias")
        used = sheet.text(QRectF(NAMED, y, sheet.width - NAMED - 8, 18), f"{how} = {exact(result.result)}", size=14,
                          bold=True)  # fmt: skip
        x = NAMED + used + 16
        verdict = tr("✓ as defined:") if result.agrees else tr("✗ defined:")
        sheet.text(QRectF(x, y, sheet.width - x - 6, 18),
                   f"{verdict} {exact(result.code)}/64·2^({result.stored} − 127) = {exact(result.defined)}",
                   look.good if result.agrees else look.bad, 12)  # fmt: skip
        if result.why_not and room >= 36:
            sheet.text(QRectF(8, y + 19, sheet.width - 14, 16), result.why_not, look.bad)

    # -- flipping bits

    def _at(self, position: QPointF) -> tuple[int, bool] | None:
        return next(((bit, code) for box, bit, code in self._cells if box.contains(position)), None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        hit = self._at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if hit else Qt.CursorShape.ArrowCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        hit = self._at(event.position())
        if hit is None:
            return
        byte, stored = self.result.byte, self.result.stored
        byte, stored = (byte ^ 1 << hit[0], stored) if hit[1] else (byte, stored ^ 1 << hit[0])
        self.turned.emit(byte - 256 if byte > 127 else byte, stored)

    def table(self) -> Table:
        """One row per step."""
        return ("step", "what", "bits", "value"), [(s.name, s.text, s.bits, s.value) for s in steps(self.result)]
