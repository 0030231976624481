"""Picture of memory savings: ideal and measured bits a weight, and the open model's ledger."""

from __future__ import annotations

from PySide6.QtCore import QRectF

from espalier.app.cell_text import reason
from espalier.app.features.kernels.charts.answers.picture import RIGHT, Picture, Sheet
from espalier.app.features.kernels.state.answer_text import value_text
from espalier.app.number_text import NOT_MEASURED, mebibytes, percent
from espalier.app.theme import CATEGORIES
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table
from espalier.kernels.bench.answers.lines import Line, lines_of, saving

ROW, NAME, VALUE = 22.0, 150.0, 76.0


class LedgerPicture(Picture):
    """Bits a weight by format, and the ledger lines of the open model."""

    NAME = tr("Memory of weights in MX formats, and of the open model")

    def draw(self, sheet: Sheet) -> None:
        """Draw both parts."""
        left = sheet.width * 0.42
        self._weights(sheet, QRectF(8, 6, left - 20, sheet.height - 12))
        self._model(sheet, QRectF(left + 8, 6, sheet.width - left - 16, sheet.height - 12))

    def _weights(self, sheet: Sheet, box: QRectF) -> None:
        y = sheet.title(box.x(), box.y(), box.width(), tr("Bits a weight"), tr("ideal · measured"))
        baseline = self.measured.fact(tr("weight in float"), 32)
        bars: list[tuple[str, float, float | None]] = [("float32", 32.0, 32.0 if baseline else None)]
        for width in (8, 4):
            packed = self.measured.fact(tr("weight packed"), width)
            ideal = 32 * (1 - saving(width))
            bars.append(
                (
                    tr("MXINT{}, blocks of 32", width),
                    ideal,
                    32 * packed.value / baseline.value if packed and baseline else None,
                )
            )
        high = min(48.0, (box.bottom() - y) / 3)
        for name, ideal, measured in bars:
            saving_text = "−" + percent(1 - ideal / 32) if ideal < 32 else ""
            sheet.text(QRectF(box.x(), y, box.width(), 16), tr("{}: {:g} bits", name, ideal), bold=True)
            sheet.text(QRectF(box.x(), y, box.width(), 16), saving_text, sheet.look.good, align=RIGHT)
            track = QRectF(box.x(), y + 17, box.width(), 7)
            sheet.box(track, sheet.look.chip)
            sheet.box(
                QRectF(track.x(), track.y(), track.width() * ideal / 32, 7), sheet.colour(CATEGORIES["embedding"])
            )
            if measured is not None and high >= 34:
                bar = QRectF(track.x(), track.y() + 9, track.width() * measured / 32, 5)
                sheet.box(bar, sheet.colour(CATEGORIES["linear"]))
            if high >= 46:
                note = tr("measured {:.4g} bits", measured) if measured is not None else tr(NOT_MEASURED)
                sheet.text(QRectF(box.x(), y + 31, box.width(), 14), note, sheet.look.muted, 10.5)
            y += high

    def _model(self, sheet: Sheet, box: QRectF) -> None:
        name = self.measured.project_name
        y = sheet.title(box.x(), box.y(), box.width(), tr("The open model"), name)
        rows = [r for r in self.measured.project if isinstance(r.get("bytes"), int | float)]
        if not rows:
            sheet.text(QRectF(box.x(), y, box.width(), 20), tr("Its lines: {}", tr(NOT_MEASURED)), sheet.look.muted)
            return
        room = max(1, int((box.bottom() - y) / 17))
        high = min(ROW, (box.bottom() - y) / min(len(rows), room))
        largest = max(max(_number(r.get("bytes")), _number(r.get("float_bytes"))) for r in rows) or 1.0
        label = min(NAME + 40, box.width() * 0.44)
        scale = (box.width() - label - VALUE - 8) / largest
        for row in rows[:room]:
            size, plain = _number(row.get("bytes")), _number(row.get("float_bytes"))
            measured = row.get("kind") == "measured"
            sheet.text(QRectF(box.x(), y, label - 6, high), reason(str(row["line"])))
            bar = QRectF(box.x() + label, y + 3, 1, high - 6)
            if plain > size:
                sheet.box(QRectF(bar.x(), bar.y(), plain * scale, bar.height()), sheet.look.chip)
            colour = sheet.colour(CATEGORIES["activation" if measured else "linear"])
            sheet.box(QRectF(bar.x(), bar.y(), max(size * scale, 1.5), bar.height()), colour)
            sheet.text(QRectF(box.right() - VALUE, y, VALUE, high), mebibytes(size), align=RIGHT)
            y += high

    def table(self) -> Table:
        """One row per line of the answer."""
        lines: tuple[Line, ...] = lines_of("memory", self.measured)
        return ("line", "value", "shown", "note"), [(x.label, x.value, value_text(x), x.note) for x in lines]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
