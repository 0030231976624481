"""Measurements by recipe and data, so that undo restores a measured score without a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.passes.figure import Figure, main_figure
from espalier.passes.jobs.kinds import OpenResult
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.running.data_fit import truncation_note
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Score, Scorer
from espalier.passes.tasks.base import TASKS, all_metrics

MAX_DIVERGENCES = 64  # stored in a project file
SCORES = ("accuracy", "loss")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A state that the score is compared with, and its display name."""

    name: str
    recipe: Recipe
    graph: Graph

    def key(self, recipe: Recipe) -> str:
        """The key of a divergence of `recipe` from this baseline."""
        return f"{recipe_key(recipe)} {recipe_key(self.recipe)}".rstrip()


def samples_of(options: EvaluateOptions) -> tuple[Any, ...]:
    """What identifies the samples of a measurement, but for their number: data, columns, tokenizer and split."""
    return (*options.which.values(), options.split)


def measured_score(static: Score, metrics: Mapping[str, float]) -> Score:
    """A static score with measured metrics; unchanged without."""
    return static.measured(metrics.get("accuracy"), metrics["loss"]) if "loss" in metrics else static


def _metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of any task in a summary."""
    found = ((name, summary.get(name)) for name in all_metrics())
    return {name: float(value) for name, value in found if isinstance(value, int | float)}


def _signature(options: EvaluateOptions) -> tuple[Any, ...]:
    from espalier.model.data.recent import signature

    return signature(options.data) if options.data else ()


class Measures:
    """Metrics and divergence by recipe on the data in use; static scores by graph identity."""

    def __init__(self) -> None:
        self.options = EvaluateOptions()
        self._signature: tuple[Any, ...] | None = None  # times and sizes of the data files at the measurement
        self.pinned: Baseline | None = None  # replaces the model as opened
        self._scores: dict[str, dict[str, float]] = {}  # metrics by name, with the loss
        self._main: dict[str, Figure] = {}  # main metrics with their samples
        self._divergences: dict[str, float] = {}  # nats per sample, by recipe and baseline
        self.task = ""  # of the last measurement on the data in use
        self.truncation = ""  # how much of the texts in use is cut, as a sentence
        self._static: dict[int, tuple[Graph, Score]] = {}
        self._scorer = Scorer()

    def begin(self, result: OpenResult) -> None:
        """Take the static scores that the worker computed on opening, and the measurements of the project."""
        if result.scorer:
            self._scorer = result.scorer
            self._static = {id(graph): (graph, score) for graph, score in result.scores}
        self.restore(result.project)

    def use(self, options: EvaluateOptions) -> None:
        """Set the data in use; discards measurements on other data, or on files that have changed."""
        if not self.is_of(options):
            self.options = options
            self._clear()
        self._signature = _signature(options)

    def is_of(self, options: EvaluateOptions) -> bool:
        """Whether the measurements are of these data, with unchanged files."""
        return options == self.options and self._signature in (None, _signature(options))

    def _clear(self) -> None:
        self._scores.clear()
        self._main.clear()
        self._divergences.clear()
        self.truncation = self.task = ""

    def has(self, recipe: Recipe) -> bool:
        """Whether a recipe has been measured on the data in use."""
        return recipe_key(recipe) in self._scores

    def record(self, recipe: Recipe, options: EvaluateOptions, summary: dict[str, Any], chosen: bool = False) -> None:
        """Record the summary of an evaluation. On other data than those in use it counts only if `chosen`."""
        if chosen or not self.options.data:
            self.use(options)
        if options == self.options:
            key = recipe_key(recipe)
            self.truncation = truncation_note(summary) or self.truncation
            if "loss" in summary:
                self._scores[key] = _metrics(summary)
                self.task = str(summary.get("task", self.task))
                self._main.pop(key, None)
            if figure := main_figure(summary):
                self._main[key] = figure

    def record_divergence(self, recipe: Recipe, options: EvaluateOptions, kl: float | None, baseline: Baseline) -> None:
        """Record the divergence (nats per sample) of a recipe from a baseline; the newest is stored last."""
        if kl is not None and options == self.options:
            key = baseline.key(recipe)
            self._divergences.pop(key, None)
            self._divergences[key] = kl

    def divergence(self, recipe: Recipe, baseline: Baseline) -> float | None:
        """The measured divergence (nats per sample) of a recipe from a baseline; None if not measured."""
        return self._divergences.get(baseline.key(recipe))

    def main(self, recipe: Recipe) -> Figure | None:
        """The main metric of a recipe with its samples; None if these are unknown."""
        return self._main.get(recipe_key(recipe))

    def metrics(self, recipe: Recipe) -> dict[str, float]:
        """The measured metrics of a recipe by name, with its loss; empty if not measured."""
        return self._scores.get(recipe_key(recipe), {})

    def score(self, graph: Graph, recipe: Recipe) -> Score:
        """The static score of `graph` with the measured accuracy and loss of `recipe`."""
        return measured_score(self._static_score(graph), self.metrics(recipe))

    def _static_score(self, graph: Graph) -> Score:
        entry = self._static.pop(id(graph), None)
        if entry is None or entry[0] is not graph:
            self._static = dict(list(self._static.items())[-20:])
            entry = graph, self._scorer.score(graph)
        self._static[id(graph)] = entry  # moved to the end: the baseline, read at each edit, is never evicted
        return entry[1]

    def to_json(self, recipe: Recipe) -> dict[str, Any]:
        """{"scores": …} for the project file: scores of the model as opened and of `recipe`, divergences by key."""
        states = (("baseline", Recipe()), ("present", recipe))
        data = {name: score for name, r in states if (score := self._score_to_json(r))}
        if self._divergences:
            data["kl"] = dict(list(self._divergences.items())[-MAX_DIVERGENCES:])
        task = {"task": self.task} if self.task else {}
        return {"scores": {"options": asdict(self.options), **task, **data}} if data else {}

    def _score_to_json(self, recipe: Recipe) -> dict[str, Any]:
        score, figure = self.metrics(recipe), self.main(recipe)
        return score | (figure.to_json() if figure else {}) if score else {}

    def restore(self, project: Project) -> None:
        """Take the scores of an opened project; malformed ones are discarded."""
        data = project.reports.get("scores")
        if not isinstance(data, dict):
            return
        try:
            self.options = EvaluateOptions(**data["options"])
            for name, recipe in (("baseline", Recipe()), ("present", project.recipe)):
                if name in data:
                    entry = data[name]
                    score: dict[str, Any] = entry if isinstance(entry, dict) else dict(zip(SCORES, entry, strict=True))
                    self._scores[recipe_key(recipe)] = {"loss": float(score["loss"])} | _metrics(score)
                    if figure := main_figure(score):
                        self._main[recipe_key(recipe)] = figure
            self.task = str(data.get("task", "")) if data.get("task", "") in TASKS else ""
            self._divergences = {str(k): float(v) for k, v in data.get("kl", {}).items()}
        except Exception:  # noqa: BLE001
            self._clear()
