"""What an allocation really gives: its graph is made in the background and measured against the baseline's outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import JobError, OptionsError
from espalier.passes.allocation.true_divergence import AllocatedOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.features.allocate.state.allocation import Ground
    from espalier.app.session.session import Session

TITLE = "Measure the allocation"
NO_DATA = "Open Data or Evaluate and name a file, a folder, hub:NAME or demo:NAME."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A configuration to be measured: the recipe, and where it stands along which cost, with its prediction."""

    recipe: Recipe
    figure: str
    at: float
    predicted: float


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it: the divergence in nats a sample; no accuracy where the outputs are no classes."""

    of: Wanted
    kl: float
    accuracy: float | None
    samples: int


class Truth(QObject):
    """One measurement at a time; `changed` tells of a start, a figure, or an error."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.found: list[Found] = []
        self.error = ""
        self.job: JobInfo | None = None
        session.opened.connect(self._forget)
        session.job_event.connect(self._hear)

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self.job is not None

    def last(self, recipe: Recipe | None) -> Found | None:
        """What is known of a recipe."""
        return next((t for t in reversed(self.found) if t.of.recipe == recipe), None)

    def along(self, figure: str) -> list[Found]:
        """What was measured along a cost."""
        return [t for t in self.found if t.of.figure == figure]

    def measure(self, wanted: Wanted, ground: Ground) -> None:
        """Make and measure; raises OptionsError where there is no data. One of before is stopped."""
        held = self._session.measured_on
        if not held.data:
            raise OptionsError("There is no data to measure on.", NO_DATA)
        self.stop()
        self.error = ""
        new = Recipe(wanted.recipe.steps[len(ground.recipe.steps) :])
        known = {f.name: getattr(held, f.name) for f in fields(EvaluateOptions)}
        step = Step("allocated", AllocatedOptions(**known, steps=json.dumps(recipe_to_dict(new))))
        self.job = self._session.analyse(TITLE, step, lambda r: self._take(wanted, r), ground.graph, self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """End what runs."""
        if self.job:
            self._session.cancel(self.job.id)
            self.job = None

    def _take(self, wanted: Wanted, report: Report) -> None:
        told = report.summary
        self.found.append(Found(wanted, float(told["kl"]), told.get("accuracy"), int(told.get("n", 0))))

    def _failed(self, error: JobError) -> None:
        self.error = f"{error.message} {error.hint}".strip()

    def _forget(self) -> None:
        self.found.clear()
        self.error, self.job = "", None
        self.changed.emit()

    def _hear(self, heard: JobEvent) -> None:
        if heard.job is self.job and isinstance(heard.event, TERMINAL):
            self.job = None
            self.changed.emit()
