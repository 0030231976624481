"""Measures divergence and accuracy of an allocation in the background."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.translation import error_text, tr
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import JobError, OptionsError
from espalier.passes.allocation.true_divergence import AllocatedOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.features.allocate.state.allocation import Base
    from espalier.app.session.session import Session

TITLE = tr("Measure the allocation")
NO_DATA = tr("Open Data or Evaluate and name a file, a folder, hub:NAME or demo:NAME.")


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """A configuration to measure: recipe, cost name and value (`at`), and predicted divergence."""

    recipe: Recipe
    figure: str
    at: float
    predicted: float


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """Result of a measurement: divergence in nats a sample; accuracy None if the outputs are not classes."""

    of: MeasureRequest
    kl: float
    accuracy: float | None
    samples: int


class Measurement(QObject):
    """Runs one measurement at a time; emits `changed` at a start, a result or an error."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.points: list[MeasuredPoint] = []
        self.error = ""
        self.job: JobInfo | None = None
        session.opened.connect(self._clear)
        session.job_event.connect(self._on_event)

    @property
    def running(self) -> bool:
        """Whether a measurement is running."""
        return self.job is not None

    def last(self, recipe: Recipe | None) -> MeasuredPoint | None:
        """The last result of a recipe."""
        return next((t for t in reversed(self.points) if t.of.recipe == recipe), None)

    def along(self, figure: str) -> list[MeasuredPoint]:
        """The results along a cost."""
        return [t for t in self.points if t.of.figure == figure]

    def measure(self, request: MeasureRequest, base: Base) -> None:
        """Measure a request and stop a running one; raises OptionsError if no data is set."""
        data_options = self._session.measured_on
        if not data_options.data:
            raise OptionsError("There is no data to measure on.", NO_DATA)
        self.stop()
        self.error = ""
        new = Recipe(request.recipe.steps[len(base.recipe.steps) :])
        fields_ = {f.name: getattr(data_options, f.name) for f in fields(EvaluateOptions)}
        step = Step("allocated", AllocatedOptions(**fields_, steps=json.dumps(recipe_to_dict(new))))
        self.job = self._session.analyse(TITLE, step, lambda r: self._take(request, r), base.graph, self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """Stop the running measurement."""
        if self.job:
            self._session.cancel(self.job.id)
            self.job = None

    def _take(self, request: MeasureRequest, report: Report) -> None:
        summary = report.summary
        self.points.append(
            MeasuredPoint(request, float(summary["kl"]), summary.get("accuracy"), int(summary.get("n", 0)))
        )

    def _failed(self, error: JobError) -> None:
        self.error = error_text(error)

    def _clear(self) -> None:
        self.points.clear()
        self.error, self.job = "", None
        self.changed.emit()

    def _on_event(self, job_event: JobEvent) -> None:
        if job_event.job is self.job and isinstance(job_event.event, TERMINAL):
            self.job = None
            self.changed.emit()
