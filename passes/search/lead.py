"""What keeps a warm start going: while none waits, one more trial of the predicted front, as refined by now.

The prediction lies in the study, so a search that goes on and workers of other machines propose by it as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from passes.search.forecast import costs_of, params_of, picks_of
from passes.search.goals import Wanted
from passes.search.refine import FRONT, Refined, read_field
from passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

    from model.graph import Graph
    from passes.search.space import Space


class Lead:
    """One for each worker. `warm`: how many trials of a study are proposed so."""

    def __init__(self, study: Study, space: Space, graph: Graph, want: Wanted, warm: int, seed: int) -> None:
        self._study, self._space, self._graph, self._want = study, space, graph, want
        self._left, self._seed = warm, seed
        self._refined: Refined | None = None

    def next(self, told: Iterable[Trial]) -> dict[str, Any] | None:
        """A trial to try; None where one waits, all have been proposed, or nothing is predicted."""
        trials = list(told)
        if any(t.state == "waiting" for t in trials) or sum(t.origin == FRONT for t in trials) >= self._left:
            return None
        self._refined = self._refined or self._read()
        if self._refined is None:
            return None
        known = [(p, t) for t in trials if (p := picks_of(self._space, t.params)) is not None]
        picks = self._refined.proposed(known)
        if picks is None:
            self._left = 0
        return None if picks is None else params_of(self._space, picks)

    def _read(self) -> Refined | None:
        held = self._study.user_attrs.get(FRONT) if self._left else None
        if held is None:
            return None
        return Refined(read_field(held, costs_of(self._want), self._graph), self._want, self._seed)
