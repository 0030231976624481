"""Folded section with the statistics of the histogram's tensor, computed when unfolded."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from espalier.app.features.inspector.figures.statistics import TensorStatistics, tensor_statistics
from espalier.app.features.inspector.widgets import FactRows
from espalier.app.figures.facts import Fact
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count, figure, percent
from espalier.app.translation import tr
from espalier.app.widgets.forms.collapsible import Collapsible
from espalier.model.store.weights import Tensor

SLOT = "statistics"
SIGMAS = 3.0
Load = Callable[[], Tensor]


class StatisticsFold(Collapsible):
    """Statistics of a tensor; the owner forwards results of `previews` for SLOT."""

    def __init__(self, previews: Previews) -> None:
        self.rows = FactRows()
        super().__init__(tr("Statistics"), lambda: self.rows)
        self._previews = previews
        self._tensor: tuple[Hashable, Load, Load | None] | None = None
        self.head.toggled.connect(lambda _: self._ask())

    def show_tensor(self, key: Hashable, load: Load, mask: Load | None) -> None:
        """Set the tensor and compute its statistics if unfolded."""
        self._previews.forget(SLOT)
        self._tensor = key, load, mask
        self._ask()

    def show_figures(self, statistics: TensorStatistics) -> None:
        """Show statistics."""
        self.rows.show_facts(statistics_facts(statistics))

    def _ask(self) -> None:
        if self._tensor is None or not self.head.isChecked():
            return
        key, load, mask = self._tensor
        cached = self._previews.ask(SLOT, (SLOT, key), partial(_work, load, mask))
        if cached is not None:
            self.show_figures(cached)


def statistics_facts(statistics: TensorStatistics) -> tuple[Fact, ...]:
    """Facts of statistics, named as in the statistics report."""
    others = (Fact("not finite", count(statistics.not_finite)),) if statistics.not_finite else ()
    if not statistics.elements:
        return others
    first, *quartiles, last = map(figure, statistics.quantiles)
    low, high = statistics.around(SIGMAS)
    zeros = percent(statistics.zeros / statistics.elements)
    return (
        Fact("min … max", f"{figure(statistics.low)} … {figure(statistics.high)}"),
        Fact("mean ± σ", f"{figure(statistics.mean)} ± {figure(statistics.deviation)}"),
        Fact("mean ± 3σ", f"{figure(low)} … {figure(high)}"),
        Fact("mean of |x|", figure(statistics.abs_mean)),
        Fact("1 % … 99 %", f"{first} … {last}"),
        Fact("quartiles", " · ".join(quartiles)),
        Fact("zeros", tr("{} of {} ({})", count(statistics.zeros), count(statistics.elements), zeros)),
        *others,
    )


def _work(load: Load, mask: Load | None, stop: Stop) -> TensorStatistics:
    return tensor_statistics(load(), mask().array if mask else None, stop)
