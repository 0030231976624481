"""The controls for what each row of the differences costs alone: a link that measures it, and what the column says."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from espalier.app.features.compare.state.comparing import Comparing
from espalier.app.features.compare.tables import DifferenceTable
from espalier.app.figures.difference import StateComparison
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided, link

MEASURE, STOP = tr("Measure KL"), tr("Stop measuring")


class CostControls(QObject):
    """`button` measures the rows of what `shown()` gives, or stops that; `words` stand below the table."""

    def __init__(
        self, comparing: Comparing, table: DifferenceTable, shown: Callable[[], StateComparison | None], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._comparing, self._table, self._shown = comparing, table, shown
        self.button, self.words = link(MEASURE, comparing.measure_rows), Elided("", "muted")
        self.button.setToolTip(tr("What each row costs alone: the divergence of A with it from A"))
        self.words.setContentsMargins(12, 2, 12, 2)
        comparing.costs.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show what is measured of the rows, and whether more can be."""
        comparing, shown = self._comparing, self._shown()
        busy = comparing.costs.busy
        self.button.setVisible(busy or comparing.can_measure_rows)
        self.button.setText(STOP if busy else MEASURE)
        costs = comparing.costs.of(shown) if shown is not None else None
        if shown is not None:
            self._table.show_costs(costs)
        self.words.show_text(costs.words if costs else "")
        self.words.setVisible(costs is not None)
