"""Picture of torch.compile: total time over calls, eager and compiled, with the break-even point."""

from __future__ import annotations

import math

from PySide6.QtCore import QRectF

from espalier.app.features.kernels.charts.answers.curves import Curve, draw_curves
from espalier.app.features.kernels.charts.answers.picture import Picture, Sheet
from espalier.app.number_text import count, time_text
from espalier.app.theme import CATEGORIES
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.log_chart import short
from espalier.kernels.bench.answers.lines import Compiled, compiled

PARTS = (("small layer", "A small layer"), ("large chain", "A large chain of operations"))
EAGER, COMPILED = CATEGORIES["linear"], CATEGORIES["activation"]
MIN_CALLS = 100


class CompiledPicture(Picture):
    """Two charts, each with its break-even point."""

    NAME = tr("Total time of calls, eager and compiled")

    def draw(self, sheet: Sheet) -> None:
        """Draw the charts."""
        half = (sheet.width - 32) / 2
        for number, (name, title) in enumerate(PARTS):
            box = QRectF(8 + number * (half + 16), 6, half, sheet.height - 12)
            timing = compiled(name, self.measured)
            eager, later, mark = curves_of(timing)
            curves = (Curve("eager", EAGER, eager, dots=False), Curve("compiled", COMPILED, later, dots=False))
            draw_curves(sheet, box, tr("{}: time of n calls", title), curves, short, time_text, mark)

    def table(self) -> Table:
        """Total seconds after n calls."""
        rows: list[tuple[object, ...]] = []
        for name, _ in PARTS:
            eager, later, _mark = curves_of(compiled(name, self.measured))
            totals = dict(later)
            rows += [(name, calls, value, totals.get(calls)) for calls, value in eager]
        return ("part", "calls", "eager (s)", "compiled (s)"), rows


Points = list[tuple[float, float]]


def curves_of(timing: Compiled) -> tuple[Points, Points, tuple[float, float, str] | None]:
    """Total seconds over calls, eager and compiled, and the break-even point."""
    even = timing.break_even
    last = MIN_CALLS * 10.0
    if even is not None and math.isfinite(even):
        last = max(last, even * 10)
    elif even is not None:
        last = 1e6
    calls = [10 ** (k / 4) for k in range(math.ceil(4 * math.log10(last)) + 1)]
    eager = _total(timing.first_eager, timing.eager, calls)
    later = _total(timing.first, timing.compiled, calls)
    if even is None or not eager or not later:
        return eager, later, None
    if math.isinf(even):
        return eager, later, (calls[-1], later[-1][1], tr("never paid back"))
    at = (timing.first or 0.0) + (even - 1) * (timing.compiled or 0.0)
    return eager, later, (even, at, tr("paid back after {} calls", count(round(even))))


def _total(first: float | None, later: float | None, calls: list[float]) -> Points:
    if first is None or later is None:
        return []
    return [(n, first + (n - 1) * later) for n in calls]
