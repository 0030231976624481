"""The measuring part of a session: the score, its baseline, and the analyses that measure both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.lane import Listener
from espalier.app.jobs.queue import JobQueue, Runner
from espalier.app.session.measures import Baseline, Measures
from espalier.app.session.repeats import Repeats
from espalier.app.translation import tr
from espalier.model.data.base import CLASSIFICATION
from espalier.model.document.document import Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import JobError, ProjectError
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.base import Report, is_instant
from espalier.passes.figure import OPENED
from espalier.passes.jobs.kinds import AnalyseJob, JobInfo
from espalier.passes.running.splits import EvaluateOptions, task_name
from espalier.passes.score import Score
from espalier.passes.tasks.base import TASKS, Task


class ScoringSession(JobQueue):
    """Holds the document and its measurements."""

    score_changed = Signal()
    compared_changed = Signal()  # the score has another baseline
    data_changed = Signal()  # the score is measured on other data

    def __init__(self, runner: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(runner, parent)
        self.document: Document | None = None
        self.measures = Measures()
        self.repeats = Repeats()

    @property
    def open_document(self) -> Document:
        """The document. Raises ProjectError if none is open."""
        if self.document:
            return self.document
        raise ProjectError("No model is open.", "Open one first.")

    @property
    def score(self) -> Score:
        """The score of the present graph; accuracy and loss are None until measured."""
        return self.measures.score(self.document.graph, self.document.recipe) if self.document else Score()

    @property
    def compared(self) -> Baseline:
        """The baseline of the score: the pinned state, else the model as opened."""
        return self.measures.pinned or Baseline(OPENED, Recipe(), self.open_document.project.base)

    @property
    def baseline(self) -> Score:
        """The score of the baseline."""
        return self.measures.score(self.compared.graph, self.compared.recipe) if self.document else Score()

    def compare_with(self, baseline: Baseline | None) -> None:
        """Set the baseline of the score; None: the model as opened."""
        self.measures.pinned = baseline
        self.score_changed.emit()
        self.compared_changed.emit()

    def evaluate(self, options: EvaluateOptions | None = None) -> None:
        """Measure the present graph, and the baseline if it was not measured on the same data."""
        document = self.open_document
        data = options or self.measured_on
        base = self.compared
        states = [(tr("Evaluate"), document.recipe, document.graph)]
        if document.recipe.active and not (self.measures.is_of(data) and self.measures.has(base.recipe)):
            states.insert(0, (tr("Evaluate baseline ({})", base.name), base.recipe, base.graph))
        for title, recipe, graph in states:
            compared = ComparedOptions(**asdict(data), baseline=base.name)
            step = Step("evaluate", compared if recipe.active else data)
            job = self.analyse(
                title, step, lambda r, of=recipe: self._measured(of, data, r.summary, base), graph, None, base
            )
        self.repeats.note(job, lambda: self.evaluate(data), document.recipe)  # the last is of the present state

    def _measured(self, recipe: Recipe, data: EvaluateOptions, summary: dict[str, Any], base: Baseline) -> None:
        self.record_score(recipe, data, summary, True)
        self.record_divergence(recipe, data, summary.get("kl"), base)

    @property
    def main_task(self) -> Task:
        """The task of the data in use, as far as it is known: measured, or by the model's head."""
        document = self.document
        if document is None:
            return TASKS.get(CLASSIFICATION)
        measured = self.measures.task or task_name(self.measured_on, document.project.source.reading)
        return TASKS.get(measured)

    @property
    def main_metric(self) -> str:
        """The main metric of `main_task`."""
        return self.main_task.main.name

    def record_divergence(self, recipe: Recipe, data: EvaluateOptions, kl: float | None, base: Baseline) -> None:
        """Record the divergence (nats per sample) of a recipe from the baseline `base`."""
        self.measures.record_divergence(recipe, data, kl, base)
        self.score_changed.emit()

    @property
    def measured_on(self) -> EvaluateOptions:
        """The data that the score is measured on: those of the last measurement, else the source's own."""
        data, document = self.measures.options, self.document
        return data if data.data or not document else EvaluateOptions(data=document.project.source.data or "")

    def record_score(
        self, recipe: Recipe, data: EvaluateOptions, figures: dict[str, Any], chosen: bool = False
    ) -> None:
        """Record the measured metrics of a recipe; on data other than the present ones only if the user chose them."""
        before = self.measured_on.which
        self.measures.record(recipe, data, figures, chosen)
        if chosen:
            self.store_data_columns(data)
        self.score_changed.emit()
        if self.measured_on.which != before:
            self.data_changed.emit()

    def store_data_columns(self, data: EvaluateOptions) -> None:
        """Store the tokenizer and the columns of `data` in the project."""
        document = self.open_document
        fields = {name: getattr(data, name) for name in ("tokenizer", "text", "label")}
        document.describe(document.project.source.taking(**fields))

    def analyse(
        self, title: str, step: Step, done: Callable[[Report], None], graph: Any = None,
        failed: Callable[[JobError], None] | None = None, against: Baseline | None = None,
    ) -> JobInfo:  # fmt: skip
        """Run an analysis on the present graph, or on `graph`.

        `failed` receives its error instead of the banner. `against`: the baseline, by default the model as opened.
        """
        document, source = self.open_document, self.open_document.project.source
        graph = document.graph if graph is None else graph
        needs_base = getattr(step.options, "teaches", False) or getattr(step.options, "AGAINST_BASE", False)
        base = (against.graph if against else document.project.base) if needs_base else None
        locations = document.store.locate(keys_of(graph, base or graph))
        job = AnalyseJob(graph, step, locations, document.store.folder, source, base)
        return self.submit(title, job, done, urgent=is_instant(step), failed=failed)
