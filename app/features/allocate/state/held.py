"""The budget that is tried, held truly: once a drag rests it is solved exactly and against the true cost, as
`allocate` does; the quick solution is for the drag alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer

from espalier.app.features.allocate.state.built import Built
from espalier.app.jobs.latest import Latest
from espalier.model.errors import EspalierError
from espalier.passes.allocation.solve import Held, better, held
from espalier.passes.costs.limits import Limit

REST = 250  # milliseconds after which a drag rests


@dataclass(frozen=True, slots=True)
class Answer:
    """The solution that holds the budget; or why there is none."""

    held: Held | None
    error: str = ""


def solved(built: Built, amount: float) -> Answer:
    """The best that holds a budget, a signed amount of the problem's only cost, by its true figure."""
    problem, cost = built.problem, built.cost
    limits = [Limit(cost.name, "<=" if cost.better == "low" else ">=", problem.figure(0, amount))]
    try:
        return Answer(better(problem, limits, held(problem, limits), built.told.of, [built.front]))
    except EspalierError as error:
        return Answer(None, f"{error.message} {error.hint}")


class Holding(QObject):
    """`told` hears the answer to the last `rest` or `at_once`."""

    def __init__(self, owner: QObject, told: Callable[[Answer], None]) -> None:
        super().__init__(owner)
        self._told = told
        self._wish: tuple[Built, float] | None = None
        self._work = Latest(self, self._hear)
        self._wait = QTimer(self, singleShot=True, interval=REST)
        self._wait.timeout.connect(self._ask)

    def rest(self, built: Built, amount: float) -> None:
        """Solve it when nothing else is tried for a moment."""
        self._work.drop()
        self._wish = built, amount
        self._wait.start()

    def at_once(self, quick: bool) -> None:
        """Solve what was last tried without waiting; a small problem in this very call."""
        if self._wish is None or self._work.busy:
            return
        if quick:
            self._wait.stop()
            self._told(solved(*self._wish))
        else:
            self._ask()

    def drop(self) -> None:
        """Nothing is tried any more."""
        self._wait.stop()
        self._work.drop()
        self._wish = None

    def _ask(self) -> None:
        self._wait.stop()
        if self._wish is not None:
            self._work.ask(solved, *self._wish)

    def _hear(self, future: Future[Answer]) -> None:
        self._told(future.result())
