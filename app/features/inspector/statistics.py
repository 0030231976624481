"""The statistics of the tensor in the histogram, folded away until wanted and only then computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from espalier.app.features.inspector.figures.statistics import TensorStatistics, tensor_statistics
from espalier.app.features.inspector.parts import FactRows
from espalier.app.figures.facts import Fact
from espalier.app.figures.parts import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.forms.fold import Fold
from espalier.app.words import count, figure, percent
from espalier.model.store.weights import Tensor

SLOT = "statistics"
SIGMAS = 3.0
Load = Callable[[], Tensor]


class StatisticsFold(Fold):
    """`show_tensor` says of what; its owner hands on what `previews` finds for SLOT."""

    def __init__(self, previews: Previews) -> None:
        self.rows = FactRows()
        super().__init__("Statistics", lambda: self.rows)
        self._previews = previews
        self._wish: tuple[Hashable, Load, Load | None] | None = None
        self.head.toggled.connect(lambda _: self._ask())

    def show_tensor(self, key: Hashable, load: Load, mask: Load | None) -> None:
        """Show what is known of a tensor's figures, and ask for the rest."""
        self._previews.forget(SLOT)
        self._wish = key, load, mask
        self._ask()

    def show_figures(self, found: TensorStatistics) -> None:
        """Show what was computed."""
        self.rows.show_facts(statistics_facts(found))

    def _ask(self) -> None:
        if self._wish is None or not self.head.isChecked():
            return
        key, load, mask = self._wish
        found = self._previews.ask(SLOT, (SLOT, key), partial(_work, load, mask))
        if found is not None:
            self.show_figures(found)


def statistics_facts(found: TensorStatistics) -> tuple[Fact, ...]:
    """The figures in words, as the report of statistics calls them."""
    others = (Fact("not finite", count(found.not_finite)),) if found.not_finite else ()
    if not found.elements:
        return others
    first, *quartiles, last = map(figure, found.quantiles)
    low, high = found.around(SIGMAS)
    return (
        Fact("min … max", f"{figure(found.low)} … {figure(found.high)}"),
        Fact("mean ± σ", f"{figure(found.mean)} ± {figure(found.deviation)}"),
        Fact("mean ± 3σ", f"{figure(low)} … {figure(high)}"),
        Fact("mean of |x|", figure(found.abs_mean)),
        Fact("1 % … 99 %", f"{first} … {last}"),
        Fact("quartiles", " · ".join(quartiles)),
        Fact("zeros", f"{count(found.zeros)} of {count(found.elements)} ({percent(found.zeros / found.elements)})"),
        *others,
    )


def _work(load: Load, mask: Load | None, stop: Stop) -> TensorStatistics:
    return tensor_statistics(load(), mask().array if mask else None, stop)
