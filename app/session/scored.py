"""The part of a session that measures: the score, what it is compared with, and the analyses that find both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.queue import JobQueue, Runner
from espalier.app.jobs.runner import Listener
from espalier.app.session.accuracies import Baseline, Measures
from espalier.model.document.document import Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import JobError, ProjectError
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.base import Report, is_instant
from espalier.passes.figure import OPENED
from espalier.passes.jobs.kinds import AnalyseJob, JobInfo
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Score


class Scored(JobQueue):
    """Holds the document and what was measured of it."""

    score_changed = Signal()
    compared_changed = Signal()  # figures are compared with another baseline
    data_known = Signal()  # what the score is measured on is other data now

    def __init__(self, runner: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(runner, parent)
        self.document: Document | None = None
        self.measures = Measures()

    @property
    def open_document(self) -> Document:
        """The document; raises ProjectError when none is open."""
        if self.document:
            return self.document
        raise ProjectError("No model is open.", "Open one first.")

    @property
    def score(self) -> Score:
        """The score of the present graph; accuracy and loss are None until measured."""
        return self.measures.score(self.document.graph, self.document.recipe) if self.document else Score()

    @property
    def compared(self) -> Baseline:
        """What figures are compared with: a state that was pinned, else the model as opened."""
        return self.measures.pinned or Baseline(OPENED, Recipe(), self.open_document.project.base)

    @property
    def baseline(self) -> Score:
        """The score of what figures are compared with."""
        return self.measures.score(self.compared.graph, self.compared.recipe) if self.document else Score()

    def compare_with(self, baseline: Baseline | None) -> None:
        """Compare figures with another state from now on; None: the model as opened."""
        self.measures.pinned = baseline
        self.score_changed.emit()
        self.compared_changed.emit()

    def evaluate(self, options: EvaluateOptions | None = None) -> None:
        """Measure the present graph, and the baseline where that has not been done on the same data."""
        document = self.open_document
        wish = options or self.measured_on
        base = self.compared
        todo = [("Evaluate", document.recipe, document.graph)]
        if document.recipe.active and not (self.measures.holds(wish) and self.measures.known(base.recipe)):
            todo.insert(0, (f"Evaluate baseline ({base.name})", base.recipe, base.graph))
        for title, recipe, graph in todo:
            beside = ComparedOptions(**asdict(wish), baseline=base.name)
            step = Step("evaluate", beside if recipe.active else wish)
            self.analyse(title, step, lambda r, of=recipe: self._measured(of, wish, r.summary, base), graph, None, base)

    def _measured(self, recipe: Recipe, data: EvaluateOptions, found: dict[str, Any], base: Baseline) -> None:
        self.know_score(recipe, data, found, True)
        self.know_divergence(recipe, data, found.get("kl"), base)

    def know_divergence(self, recipe: Recipe, data: EvaluateOptions, kl: float | None, base: Baseline) -> None:
        """Take a divergence that was measured of a recipe, from what `base` is."""
        self.measures.put_divergence(recipe, data, kl, base)
        self.score_changed.emit()

    @property
    def measured_on(self) -> EvaluateOptions:
        """The data that the score is measured on: that of the last measurement, else the source's own."""
        held, document = self.measures.options, self.document
        return held if held.data or not document else EvaluateOptions(data=document.project.source.data or "")

    def know_score(self, recipe: Recipe, data: EvaluateOptions, figures: dict[str, Any], chosen: bool = False) -> None:
        """Take figures measured of a recipe; on other data than the last they count only where that was `chosen`."""
        before = self.measured_on.which
        self.measures.put(recipe, data, figures, chosen)
        if chosen:
            self.read_as(data)
        self.score_changed.emit()
        if self.measured_on.which != before:
            self.data_known.emit()

    def read_as(self, data: EvaluateOptions) -> None:
        """Data were read with this tokenizer and these columns: they are the project's from then on."""
        document = self.open_document
        named = {name: getattr(data, name) for name in ("tokenizer", "text", "label")}
        document.describe(document.project.source.taking(**named))

    def analyse(
        self, title: str, step: Step, done: Callable[[Report], None], graph: Any = None,
        failed: Callable[[JobError], None] | None = None, against: Baseline | None = None,
    ) -> JobInfo:  # fmt: skip
        """Run an analysis on the present graph, or another; `failed` gets its error instead of the banner.

        `against`: what it compares with, where that is not the model as opened.
        """
        document, source = self.open_document, self.open_document.project.source
        graph = document.graph if graph is None else graph
        wanted = getattr(step.options, "teaches", False) or getattr(step.options, "AGAINST_BASE", False)
        base = (against.graph if against else document.project.base) if wanted else None
        locations = document.store.locate(keys_of(graph, base or graph))
        job = AnalyseJob(graph, step, locations, document.store.folder, source, base)
        return self.submit(title, job, done, urgent=is_instant(step), failed=failed)
