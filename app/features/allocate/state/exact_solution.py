"""Exact solution of the current budget, computed as by the command `allocate` once a drag pauses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer

from espalier.app.features.allocate.state.cost_problem import CostProblem
from espalier.app.jobs.latest_task import LatestTask
from espalier.app.translation import error_text
from espalier.model.errors import EspalierError
from espalier.passes.allocation.solve import Held, better, held
from espalier.passes.costs.limits import Limit

REST = 250  # milliseconds without movement after which a drag counts as paused


@dataclass(frozen=True, slots=True)
class Answer:
    """The solution that meets the budget, or the error."""

    solution: Held | None
    error: str = ""


def solve_exactly(built: CostProblem, amount: float) -> Answer:
    """Best solution within a budget (signed amount of the only cost), checked by the exact cost."""
    problem, cost = built.problem, built.cost
    limits = [Limit(cost.name, "<=" if cost.better == "low" else ">=", problem.figure(0, amount))]
    try:
        return Answer(better(problem, limits, held(problem, limits), built.predictor.of, [built.front]))
    except EspalierError as error:
        return Answer(None, error_text(error))


class ExactSolver(QObject):
    """Calls `done` with the answer to the last `rest` or `at_once`."""

    def __init__(self, owner: QObject, done: Callable[[Answer], None]) -> None:
        super().__init__(owner)
        self._done = done
        self._request: tuple[CostProblem, float] | None = None
        self._work = LatestTask(self, self._on_done)
        self._wait = QTimer(self, singleShot=True, interval=REST)
        self._wait.timeout.connect(self._ask)

    def rest(self, built: CostProblem, amount: float) -> None:
        """Solve after REST milliseconds without another request."""
        self._work.drop()
        self._request = built, amount
        self._wait.start()

    def at_once(self, quick: bool) -> None:
        """Solve the last request now; `quick`: in this call."""
        if self._request is None or self._work.busy:
            return
        if quick:
            self._wait.stop()
            self._done(solve_exactly(*self._request))
        else:
            self._ask()

    def drop(self) -> None:
        """Nothing is tried any more."""
        self._wait.stop()
        self._work.drop()
        self._request = None

    def _ask(self) -> None:
        self._wait.stop()
        if self._request is not None:
            self._work.ask(solve_exactly, *self._request)

    def _on_done(self, future: Future[Answer]) -> None:
        self._done(future.result())
