"""Measurements by recipe and data, so that undo restores a measured score without a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.passes.figure import Figure as Accuracy
from espalier.passes.figure import main_figure
from espalier.passes.jobs.kinds import OpenResult
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.running.data_fit import truncation_note
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Score, Scorer

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


def _signature(options: EvaluateOptions) -> tuple[Any, ...]:
    from espalier.model.data.recent import signature

    return signature(options.data) if options.data else ()


class Measures:
    """Accuracy, loss and divergence by recipe on the data in use; static scores by graph identity."""

    def __init__(self) -> None:
        self.options = EvaluateOptions()
        self._signature: tuple[Any, ...] | None = None  # times and sizes of the data files at the measurement
        self.pinned: Baseline | None = None  # replaces the model as opened
        self._scores: dict[str, tuple[float, float]] = {}  # (accuracy, loss)
        self._accuracies: dict[str, Accuracy] = {}  # those with their samples
        self._divergences: dict[str, float] = {}  # nats per sample, by recipe and baseline
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
        self._accuracies.clear()
        self._divergences.clear()
        self.truncation = ""

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
                self._scores[key] = (summary["accuracy"], summary["loss"])
                self._accuracies.pop(key, None)
            if accuracy := main_figure(summary):
                self._accuracies[key] = accuracy

    def record_divergence(self, recipe: Recipe, options: EvaluateOptions, kl: float | None, baseline: Baseline) -> None:
        """Record the divergence (nats per sample) of a recipe from a baseline; the newest is stored last."""
        if kl is not None and options == self.options:
            key = baseline.key(recipe)
            self._divergences.pop(key, None)
            self._divergences[key] = kl

    def divergence(self, recipe: Recipe, baseline: Baseline) -> float | None:
        """The measured divergence (nats per sample) of a recipe from a baseline; None if not measured."""
        return self._divergences.get(baseline.key(recipe))

    def accuracy(self, recipe: Recipe) -> Accuracy | None:
        """The accuracy of a recipe with its samples; None if these are unknown."""
        return self._accuracies.get(recipe_key(recipe))

    def measured_of(self, recipe: Recipe) -> tuple[float, float] | None:
        """The measured (accuracy, loss) of a recipe; None if not measured."""
        return self._scores.get(recipe_key(recipe))

    def score(self, graph: Graph, recipe: Recipe) -> Score:
        """The static score of `graph` with the measured accuracy and loss of `recipe`."""
        static = self._static_score(graph)
        measured = self._scores.get(recipe_key(recipe))
        return static.measured(*measured) if measured else static

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
        return {"scores": {"options": asdict(self.options), **data}} if data else {}

    def _score_to_json(self, recipe: Recipe) -> dict[str, Any]:
        score, accuracy = self._scores.get(recipe_key(recipe)), self.accuracy(recipe)
        if score is None:
            return {}
        samples = {} if accuracy is None else {k: v for k, v in asdict(accuracy).items() if k != "value"}
        return dict(zip(SCORES, score, strict=True)) | samples

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
                    self._scores[recipe_key(recipe)] = (float(score["accuracy"]), float(score["loss"]))
                    if accuracy := main_figure(score):
                        self._accuracies[recipe_key(recipe)] = accuracy
            self._divergences = {str(k): float(v) for k, v in data.get("kl", {}).items()}
        except Exception:  # noqa: BLE001
            self._clear()
