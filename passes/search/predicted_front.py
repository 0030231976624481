"""What keeps a warm start going: while none waits, one more trial of the predicted front, as refined by now.

The prediction lies in the study, so a search that goes on and workers of other machines propose by it as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.passes.allocation.problem import Whole
from espalier.passes.search.goals import Wanted
from espalier.passes.search.margins import Known
from espalier.passes.search.predicted_start import Forecast, costs_of, params_of, picks_of
from espalier.passes.search.refine import FRONT, ROUGH_FRONT, Refined, read_field
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

    from espalier.model.graph.graph import Graph
    from espalier.passes.search.space import Space

LEAST = 4  # trials whose samples are known, from which shifts are learned


class FrontProposer:
    """One for each worker. `warm`: how many trials of a study are proposed so."""

    def __init__(self, study: Study, space: Space, graph: Graph, want: Wanted, warm: int, seed: int) -> None:
        self._study, self._space, self._graph, self._want = study, space, graph, want
        self._left, self._seed = warm, seed
        self._refined: Refined | None = None
        self._from_rough = self._settled = False

    def keep(self, found: Forecast) -> None:
        """Go by this from now on; the study keeps it for all its workers."""
        if found.field is not None:
            if not found.whole:  # before the front: who reads that one is to know that a better one may come
                self._study.set_user_attr(ROUGH_FRONT, True)
            self._study.set_user_attr(FRONT, found.field.to_json())
            self._study.set_user_attr(ROUGH_FRONT, not found.whole)
            self._refined = None

    def rough(self, told: Iterable[Trial]) -> bool:
        """Whether trials are still to be proposed, by a part of the gradients so far."""
        return not self._settled and self._wanted(told) and bool(self._study.user_attrs.get(ROUGH_FRONT))

    def settle(self) -> None:
        """This worker looks for no more gradients."""
        self._settled = True

    def _wanted(self, told: Iterable[Trial]) -> bool:
        return sum(t.origin == FRONT for t in told) < self._left

    def next(self, told: Iterable[Trial], runner: object) -> dict[str, Any] | None:
        """A trial to try; None where one waits, all have been proposed, or nothing is predicted.

        A runner that keeps each sample's margin tells more of its trials than their figures.
        """
        trials = list(told)
        if any(t.state == "waiting" for t in trials) or not self._wanted(trials):
            return None
        if self._from_rough and not self._study.user_attrs.get(ROUGH_FRONT):
            self._refined = None  # another worker has found the rest of the gradients
        self._refined = self._refined or self._read()
        if self._refined is None:
            return None
        known = [(p, t) for t in trials if (p := picks_of(self._space, t.params)) is not None]
        picks = self._refined.proposed(known, self._seen(known, runner))
        if picks is None:
            self._left = 0
        return None if picks is None else params_of(self._space, picks)

    def _seen(self, known: list[tuple[Whole, Trial]], runner: object) -> Known | None:
        """What this worker saw of each sample, where accuracy is wanted and that is most of what there is."""
        want, margins = self._want, getattr(runner, "margins", None)
        if margins is None or want.summed or want.goals[0].figure != "accuracy" or want.signs[0] < 0:
            return None
        done = [(p, t) for p, t in known if t.state == "complete"]
        seen = [(p, held) for p, t in done if (held := margins(t.params)) is not None and np.isfinite(held).all()]
        if len(seen) < LEAST or 2 * len(seen) < len(done):
            return None
        base = margins({}, self._graph)
        if not np.isfinite(base).all():
            return None
        # The same again and what changes nothing tell nothing: with them all would seem to act alone.
        told = {tuple(p): (p, held) for p, held in seen if not np.array_equal(held, base)}
        if len(told) < LEAST:
            return None
        return Known(np.array([p for p, _ in told.values()]), np.array([m for _, m in told.values()], np.float64), base)

    def _read(self) -> Refined | None:
        attrs = self._study.user_attrs if self._left else {}
        held = attrs.get(FRONT)
        if held is None:
            return None
        self._from_rough = bool(attrs.get(ROUGH_FRONT))
        return Refined(read_field(held, costs_of(self._want), self._graph), self._want, self._seed)
