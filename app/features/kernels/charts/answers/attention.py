"""Picture of attention: time and memory over tokens, naive and fused, and an online softmax by blocks."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF

from espalier.app.features.kernels.charts.answers.curves import Curve, binary, binary_ticks, draw_curves
from espalier.app.features.kernels.charts.answers.picture import CENTRE, Picture, Sheet
from espalier.app.number_text import figure, time_text
from espalier.app.theme import CATEGORIES
from espalier.app.translation import tr, translated
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.log_chart import short
from espalier.kernels.bench.answers.lines import SIZES, plain_attention
from espalier.kernels.bench.answers.passes import online, score_bytes

COLOURS = {"naive": CATEGORIES["activation"], "torch": CATEGORIES["linear"], "triton": CATEGORIES["matmul"]}
TITLES = translated({"naive": "naive", "torch": "fused (torch)", "triton": "fused (triton)"})
# Example scores; the largest comes late, so that the running sum is rescaled.
SCORES = (0.4, 1.1, -0.6, 0.8, 1.9, 0.2, -0.3, 1.2, 0.5, 2.7, 1.4, -0.9)
LOWEST = -1.2


class AttentionPicture(Picture):
    """Time, memory and online softmax; `block`: scores per step of the online softmax."""

    NAME = tr("Attention over tokens, and an online softmax")

    def __init__(self) -> None:
        self.block = 4
        super().__init__()

    def set_block(self, block: int) -> None:
        """Set the number of scores per step."""
        self.block = block
        self.update()

    def draw(self, sheet: Sheet) -> None:
        """Draw time, memory and the online softmax."""
        third = (sheet.width - 48) / 3
        boxes = [QRectF(8 + i * (third + 16), 6, third, sheet.height - 12) for i in range(3)]
        draw_curves(sheet, boxes[0], tr("Time over tokens"), self._times(), short, time_text)
        draw_curves(sheet, boxes[1], tr("Memory besides the inputs"), self._memory(), short, binary, ticks=binary_ticks)
        self._online(sheet, boxes[2])

    def _times(self) -> list[Curve]:
        rows = {v: plain_attention(self.measured, v) for v in TITLES}
        return [Curve(TITLES[v], COLOURS[v], [(r.shape["s"], r.seconds or 0.0) for r in points])
                for v, points in rows.items() if points]  # fmt: skip

    def _memory(self) -> list[Curve]:
        curves = [Curve(TITLES[v], COLOURS[v], list(self.measured.by_size(f"attention memory {v}").items()))
                 for v in ("naive", "torch")]  # fmt: skip
        rows = plain_attention(self.measured, "naive")
        scores = [(float(r.shape["s"]), float(score_bytes(r.shape["b"], r.shape["h"], r.shape["s"],
                                                          SIZES.get(r.dtype, 4)))) for r in rows]  # fmt: skip
        return [
            *(c for c in curves if c.points),
            Curve(tr("scores (computed)"), CATEGORIES["shape"], scores, False, True),
        ]

    def _online(self, sheet: Sheet, box: QRectF) -> None:
        """Draw scores as bars, the running maximum as a line, running sum and rescaling factor below."""
        sheet.text(QRectF(box.x(), box.y(), box.width(), 18), tr("Online softmax, an example"), size=12, bold=True)
        sheet.text(QRectF(box.x(), box.y() + 18, box.width(), 16), tr("m largest, l = Σ exp(score − m)"),
                   sheet.look.muted)  # fmt: skip
        inner = QRectF(box.x(), box.y() + 40, box.width(), box.height() - 40 - 38)
        pitch, span = inner.width() / len(SCORES), max(SCORES) - LOWEST

        def level(value: float) -> float:
            return inner.bottom() - (value - LOWEST) / span * inner.height()

        start = 0
        for number, state in enumerate(online(SCORES, self.block)):
            left, right = inner.left() + start * pitch, inner.left() + state.end * pitch
            if number % 2:
                sheet.box(QRectF(left, inner.top(), right - left, inner.height()), sheet.look.group, radius=0)
            for i in range(start, state.end):
                bar = QRectF(
                    inner.left() + i * pitch + 1, level(SCORES[i]), pitch - 2, inner.bottom() - level(SCORES[i])
                )
                sheet.box(bar, sheet.colour(COLOURS["torch"]), radius=1)
            sheet.line(QPointF(left, level(state.largest)), QPointF(right, level(state.largest)),
                       sheet.colour(COLOURS["naive"]), 2)  # fmt: skip
            if right - left >= 34:
                self._state(sheet, QRectF(left, inner.bottom() + 2, right - left, 36), state.largest, state.total,
                            state.factor if number else None)  # fmt: skip
            start = state.end

    @staticmethod
    def _state(sheet: Sheet, box: QRectF, largest: float, total: float, factor: float | None) -> None:
        first = f"m {figure(largest)}  l {figure(total)}" if box.width() >= 84 else f"l {figure(total)}"
        sheet.text(QRectF(box.x(), box.y(), box.width(), 16), first, size=10.5, align=CENTRE)
        if factor is not None:
            text = tr("before × {}", figure(factor)) if box.width() >= 84 else f"× {figure(factor)}"
            sheet.text(QRectF(box.x(), box.y() + 16, box.width(), 16), text, sheet.look.muted, 10.5, CENTRE)

    def table(self) -> Table:
        """One row per version and length."""
        rows: list[tuple[object, ...]] = []
        for version in TITLES:
            memory = self.measured.by_size(f"attention memory {version}")
            rows += [(version, r.shape["s"], r.seconds, memory.get(r.shape["s"]))
                     for r in plain_attention(self.measured, version)]  # fmt: skip
        return ("version", "tokens", "seconds", "peak memory (bytes)"), rows
