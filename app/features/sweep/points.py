"""The points of a sweep as a table: chosen by a row or in the chart, described, and applied as the recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from espalier.app.number_text import cell, percent, signed
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted
from espalier.app.widgets.table import Table
from espalier.passes.figure import main_figure
from espalier.passes.sweep.results import Outcome, point_text, rows, sampled
from espalier.passes.sweep.sweep import Sweep, axis_name

LAST = ("seed", "n", "error", "seconds")  # columns after the metrics
NARROWER, NARROWEST = 16, 44  # pixels of a column


class SweepPoints(QWidget):
    """`chosen`: the outcome of the chosen row; `used`: apply its recipe."""

    chosen = Signal(object)
    used = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.table.setAccessibleName(tr("Points of the sweep"))
        self.outcomes: list[Outcome] = []
        self.picked: Outcome | None = None
        self._sweep: Sweep | None = None
        self.words = muted("", wrap=True)
        self.use = QPushButton(tr("Use this recipe"))
        self.use.setToolTip(tr("Make the chosen point's recipe the recipe, in one step that can be undone"))
        self.use.clicked.connect(self.want)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 12, 0)
        foot.addWidget(self.words, 1)
        foot.addWidget(self.use)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 6, 0, 6)
        box.setSpacing(6)
        box.addWidget(self.table, 1)
        box.addLayout(foot)
        self.table.selectionModel().currentRowChanged.connect(self._row_chosen)
        self.table.doubleClicked.connect(lambda _: self.want())

    def show_run(self, sweep: Sweep | None, outcomes: Sequence[Outcome]) -> None:
        """Show outcomes, keeping the chosen one if it is among them."""
        self._sweep, self.outcomes = sweep, list(outcomes)
        self.picked = self.picked if self.picked in self.outcomes else None
        self.table.show_rows(self._rows())
        for column in range(len(self.table.rows.columns)):
            self.table.setColumnWidth(column, max(self.table.columnWidth(column) - NARROWER, NARROWEST))
        self._mark()
        self._update_texts()

    def _rows(self) -> list[dict[str, Any]]:
        return [self._row(r) for r in rows(self._sweep, self.outcomes)] if self._sweep else []

    @property
    def _share(self) -> bool:
        """Whether the main metric is a share."""
        samples = sampled(self.outcomes)
        return samples is None or samples.share

    def _row(self, values: dict[str, Any]) -> dict[str, Any]:
        """A row of a point: its values, metrics, then seconds; constant columns are omitted."""
        sweep = self._sweep
        assert sweep is not None
        hidden = {"variant"} if sweep.axis and all(not v.label for v in sweep.variants) else set[str]()
        hidden |= {"seed"} if len(sweep.seeds) < 2 else set()
        hidden |= {"error"} if not any(o.error for o in self.outcomes) else set()
        named = {axis_name(sweep.recipe, sweep.axis): "value"} if sweep.axis else {}
        shown = {named.get(k, k): v for k, v in values.items() if k not in hidden}
        if interval := shown.get("interval"):
            shown["interval"] = "–".join(percent(e) if self._share else cell(float(f"{e:.3g}")) for e in interval)
        if shown.get("change") is not None:
            noise = tr(", within noise") if shown.pop("within_noise") else ""
            value = shown["change"]
            text = tr("{} points", signed(100 * value, 1)) if self._share else f"{value:+.3g}".replace("-", "−")
            shown["change"] = f"{text}{noise}"
        shown.pop("within_noise", None)
        last = {k: shown.pop(k) for k in LAST if k in shown}
        return shown | last

    def _row_chosen(self, current: QModelIndex) -> None:
        """Choose the outcome of a row, for any sort order."""
        if current.isValid() and current.row() < len(self.table.rows.shown):
            values = self.table.rows.shown[current.row()]
            index = next((i for i, r in enumerate(self._rows()) if r == values), None)
            if index is not None:
                self.choose(self.outcomes[index])

    def choose_at(self, variant: int, x: int) -> None:
        """Choose a point of the chart: of several seeds the best, otherwise the first."""
        matching = [o for o in self.outcomes if (o.variant, o.x) == (variant, x) and not o.error]
        if matching:
            self.choose(max(matching, key=_merit))

    def choose(self, outcome: Outcome) -> None:
        """Select a point and emit it."""
        if outcome is not self.picked:
            self.picked = outcome
            self._mark()
            self._update_texts()
            self.chosen.emit(outcome)

    def _mark(self) -> None:
        if self.picked is None:
            return
        values = self._rows()[self.outcomes.index(self.picked)]
        index = next((i for i, r in enumerate(self.table.rows.shown) if r == values), None)
        if index is not None and self.table.currentIndex().row() != index:
            self.table.setCurrentIndex(self.table.rows.index(index, 0))

    def _update_texts(self) -> None:
        outcome = self.picked
        self.use.setEnabled(outcome is not None and not outcome.error)
        if outcome is None or self._sweep is None:
            self.words.setText(tr("Click a point or a row.") if self.outcomes else "")
        else:
            reason = f": {outcome.error} {outcome.hint}".rstrip() if outcome.error else ""
            self.words.setText(f"{point_text(self._sweep, outcome)}{reason}")

    def want(self) -> None:
        """Request to apply the chosen point's recipe."""
        if self.picked and not self.picked.error:
            self.used.emit(self.picked)


def _merit(outcome: Outcome) -> float:
    """The main metric, signed so that higher is better."""
    figure = main_figure(outcome.score)
    return -math.inf if figure is None else -figure.value if figure.low else figure.value
