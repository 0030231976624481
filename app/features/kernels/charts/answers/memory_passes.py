"""Picture of a softmax's passes over memory: reads and writes of each operation, naive and fused."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF

from espalier.app.features.kernels.charts.answers.picture import READS, RIGHT, WRITES, Picture, Sheet
from espalier.app.number_text import NOT_MEASURED, THIN, figure, mebibytes, time_text
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table
from espalier.kernels.bench.answers.passes import FUSED, NAIVE, SIZES, WHOLE, Pass, reads, writes
from espalier.kernels.bench.results import Row

ROW, THIN_BAR, GAP = 22.0, 4.0, 2.0


class MemoryPassesPicture(Picture):
    """One row a pass: reads blue, writes orange; matrices are wide, columns thin."""

    NAME = tr("Passes of a softmax over memory")

    def draw(self, sheet: Sheet) -> None:
        """Draw naive at the left, fused at the right, measurements below."""
        half = (sheet.width - 32) / 2
        shape = self.measured.largest("softmax")
        for number, (title, passes, version) in enumerate(
            ((tr("Naive"), NAIVE, "naive"), (tr("Fused"), FUSED, "torch"))
        ):
            row = self.measured.row("softmax", version, shape)
            self._part(sheet, QRectF(8 + number * (half + 16), 6, half, sheet.height - 12), title, passes, row)

    def _part(self, sheet: Sheet, box: QRectF, title: str, passes: Sequence[Pass], row: Row | None) -> None:
        count = tr("{} passes", len(passes)) if len(passes) > 1 else tr("1 pass")
        y = sheet.title(
            box.x(), box.y(), box.width(), title, tr("{}: reads {}, writes {}", count, reads(passes), writes(passes))
        )
        high = min(ROW, max(14.0, (box.height() - 66) / len(NAIVE)))
        name = min(110.0, box.width() * 0.36)
        unit = (box.width() - name - 3 * GAP - 3 * THIN_BAR) / 2
        for step in passes:
            sheet.text(QRectF(box.x(), y, name - 6, high), step.text)
            x = box.x() + name
            for tensor in step.reads:
                x = self._bar(sheet, x, y, high, unit, tensor, READS)
            self._bar(sheet, x, y, high, unit, step.writes, WRITES)
            y += high
        if len(passes) < len(NAIVE):
            text = tr("the rest stays in registers")
            sheet.text(QRectF(box.x() + name, y, box.width() - name, high), text, sheet.look.muted)
        self._foot(sheet, box, row)

    def _bar(self, sheet: Sheet, x: float, y: float, high: float, unit: float, tensor: str, colour: str) -> float:
        wide = unit if SIZES[tensor] == WHOLE else THIN_BAR
        box = QRectF(x, y + 2, wide, high - 4)
        sheet.box(box, sheet.colour(colour))
        if wide > 40:
            ground = sheet.look.on_accent if sheet.look.dark else "#FFFFFF"
            text = tr("read {}", tensor) if colour == READS else tr("write {}", tensor)
            sheet.text(box.adjusted(5, 0, -3, 0), text, ground, 10.5)
        return x + wide + GAP

    def _foot(self, sheet: Sheet, box: QRectF, row: Row | None) -> None:
        foot = QRectF(box.x(), box.bottom() - 36, box.width(), 18)
        sheet.line(foot.topLeft(), foot.topRight())
        if row is None or not row.seconds:
            sheet.text(foot.translated(0, 2), tr("Time and bandwidth: {}", tr(NOT_MEASURED)), sheet.look.muted)
            return
        shape = f"{row.shape['m']} × {row.shape['n']}, {row.dtype}"
        text = tr("{} in {}", mebibytes(row.bytes), time_text(row.seconds))
        sheet.text(foot.translated(0, 2), text, bold=True, size=12)
        sheet.text(foot.translated(0, 2), f"{figure(row.gb_s or 0)}{THIN}GB/s", bold=True, size=12, align=RIGHT)
        sheet.text(foot.translated(0, 18), shape, sheet.look.muted)

    def table(self) -> Table:
        """One row per pass."""
        rows = [(v, p.text, " ".join(p.reads), p.writes) for v, ps in (("naive", NAIVE), ("fused", FUSED)) for p in ps]
        return ("version", "pass", "reads", "writes"), rows
