"""The warm start of a study: first trials from the predicted Pareto front, and further gradients between trials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import EspalierError, StorageError
from espalier.passes.base import Cancelled, Context
from espalier.passes.search.predicted_front import FrontProposer
from espalier.passes.search.prepare import Prepared
from espalier.passes.search.search import Search
from espalier.passes.search.time_budget import TimeBudget
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

MIN_GATHERING = 15.0  # seconds of gradients between two trials, at least


class WarmStart:
    """Proposes `spec.warm` trials of a study from the predicted front; none if `warm` is 0."""

    def __init__(
        self, study: Study, search: Search, ready: Prepared, context: Context, time: TimeBudget, salt: int
    ) -> None:
        self._ready, self._spec, self._context, self._time = ready, search.spec, context, time
        self._base = search.base
        self.proposer = FrontProposer(
            study, ready.space, ready.graph, ready.want, search.spec.warm, search.spec.seed + salt
        )

    def first(self) -> tuple[dict[str, Any], ...]:
        """The configurations to begin with; none if the user ends the prediction."""
        if not self._spec.warm:
            return ()
        try:
            return self._predict()
        except _Enough:
            return ()

    def next(self, trials: Iterable[Trial], runner: object) -> dict[str, Any] | None:
        """The next configuration of the predicted front; None if there is none to propose."""
        return self.proposer.next(trials, runner) if self._spec.warm else None

    def refine(self, trials: Iterable[Trial], seconds: float, done: int) -> bool:
        """Gather more gradients for about `seconds`, if the front was predicted from a part; returns whether it was.

        An error is reported once and ends the gathering, not the search.
        """
        if not self.proposer.rough(trials):
            return False
        context = self._gathering()
        try:
            if self._ready.gathered(self._time.limited_to_remaining(max(seconds, MIN_GATHERING)), context):
                self.proposer.settle()  # even if no new forecast can be made of them
                self._predict()
        except _Enough:
            pass
        except (Cancelled, StorageError):
            raise
        except EspalierError as error:
            self.proposer.settle()
            self._time.progress(done, self._spec.trials, f"no more gradients: {error.message}")
        return True

    def _predict(self) -> tuple[dict[str, Any], ...]:
        """Forecast from the gradients gathered so far; the proposer follows the new forecast."""
        forecast = self._ready.forecast(self._spec.warm, self._gathering(), self._time.start)
        self.proposer.keep(forecast)
        return forecast.starts

    def _gathering(self) -> Context:
        """A context whose progress raises _Enough when the user stops or time is up; gathered statistics are kept."""
        context = self._context

        def progress(done: int, total: int, text: str) -> None:
            self._time.progress(done, total, text)
            if context.enough() or self._time.spent:
                raise _Enough

        return replace(context, base=self._base, progress=progress)


class _Enough(Exception):
    """No more gradients are needed."""
