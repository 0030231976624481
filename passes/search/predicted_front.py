"""Proposes further trials of the predicted Pareto front, refined by the trials measured so far.

The prediction is stored in the study, so a resumed search and workers on other machines use it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.passes.allocation.problem import Ints
from espalier.passes.search.goals import Wanted
from espalier.passes.search.margins import MeasuredMargins
from espalier.passes.search.predicted_start import Forecast, costs_of, params_of, picks_of
from espalier.passes.search.refine import FRONT, ROUGH_FRONT, Refined, read_field
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

    from espalier.model.graph.graph import Graph
    from espalier.passes.search.space import Space

MIN_TRIALS = 4  # trials with margins, from which shifts are fitted


class FrontProposer:
    """One per worker. `warm`: number of trials of a study that it proposes."""

    def __init__(self, study: Study, space: Space, graph: Graph, want: Wanted, warm: int, seed: int) -> None:
        self._study, self._space, self._graph, self._want = study, space, graph, want
        self._limit, self._seed = warm, seed
        self._refined: Refined | None = None
        self._from_rough = self._settled = False

    def keep(self, forecast: Forecast) -> None:
        """Use `forecast` from now on, and store it in the study for all workers."""
        if forecast.field is not None:
            if not forecast.complete:  # before the front, so that no reader takes a rough one for final
                self._study.set_user_attr(ROUGH_FRONT, True)
            self._study.set_user_attr(FRONT, forecast.field.to_json())
            self._study.set_user_attr(ROUGH_FRONT, not forecast.complete)
            self._refined = None

    def rough(self, trials: Iterable[Trial]) -> bool:
        """Whether trials remain to be proposed and the front comes from a part of the gradients."""
        return not self._settled and self._has_budget(trials) and bool(self._study.user_attrs.get(ROUGH_FRONT))

    def settle(self) -> None:
        """This worker gathers no more gradients."""
        self._settled = True

    def _has_budget(self, trials: Iterable[Trial]) -> bool:
        return sum(t.origin == FRONT for t in trials) < self._limit

    def next(self, trials: Iterable[Trial], runner: object) -> dict[str, Any] | None:
        """The next configuration; None if a trial is queued, all have been proposed, or nothing is predicted.

        Uses the margins of `runner`, if it has any.
        """
        trials = list(trials)
        if any(t.state == "waiting" for t in trials) or not self._has_budget(trials):
            return None
        if self._from_rough and not self._study.user_attrs.get(ROUGH_FRONT):
            self._refined = None  # another worker has gathered the remaining gradients
        self._refined = self._refined or self._read()
        if self._refined is None:
            return None
        pairs = [(p, t) for t in trials if (p := picks_of(self._space, t.params)) is not None]
        picks = self._refined.propose(pairs, self._measured_margins(pairs, runner))
        if picks is None:
            self._limit = 0
        return None if picks is None else params_of(self._space, picks)

    def _measured_margins(self, trials: list[tuple[Ints, Trial]], runner: object) -> MeasuredMargins | None:
        """The margins that this worker measured, if accuracy is the first goal and it measured half the trials."""
        want, margins = self._want, getattr(runner, "margins", None)
        if margins is None or want.summed or want.goals[0].figure != "accuracy" or want.signs[0] < 0:
            return None
        complete = [(p, t) for p, t in trials if t.state == "complete"]
        rows = [(p, row) for p, t in complete if (row := margins(t.params)) is not None and np.isfinite(row).all()]
        if len(rows) < MIN_TRIALS or 2 * len(rows) < len(complete):
            return None
        base = margins({}, self._graph)
        if not np.isfinite(base).all():
            return None
        # Leave out duplicates and trials that change nothing: they would inflate the interactions.
        distinct = {tuple(p): (p, row) for p, row in rows if not np.array_equal(row, base)}
        if len(distinct) < MIN_TRIALS:
            return None
        picks, values = zip(*distinct.values(), strict=True)
        return MeasuredMargins(np.array(picks), np.array(values, np.float64), base)

    def _read(self) -> Refined | None:
        attrs = self._study.user_attrs if self._limit else {}
        stored = attrs.get(FRONT)
        if stored is None:
            return None
        self._from_rough = bool(attrs.get(ROUGH_FRONT))
        return Refined(read_field(stored, costs_of(self._want), self._graph), self._want, self._seed)
