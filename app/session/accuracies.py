"""Measured accuracies by recipe and data, so that undo brings a measured score back without a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.passes.figure import Figure as Accuracy
from espalier.passes.figure import accuracy_of
from espalier.passes.jobs.kinds import OpenResult
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.running.data_fit import text_words
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Score, Scorer

KEPT = 64  # divergences that a project file holds
SCORES = ("accuracy", "loss")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What figures are compared with: a name for people, and the state that it stands for."""

    name: str
    recipe: Recipe
    graph: Graph

    def key(self, recipe: Recipe) -> str:
        """The name under which what was measured of `recipe` against it is kept."""
        own = recipe_key(self.recipe)
        return f"{recipe_key(recipe)} {own}".rstrip()


def _files(options: EvaluateOptions) -> tuple[Any, ...]:
    from espalier.model.data.recent import signature

    return signature(options.data) if options.data else ()


class Measures:
    """Accuracy and loss by recipe for the data in use; static scores by graph identity."""

    def __init__(self) -> None:
        self.options = EvaluateOptions()
        self._files: tuple[Any, ...] | None = None  # times and sizes of the data's files when they were measured on
        self.pinned: Baseline | None = None  # chosen in place of the model as opened
        self._found: dict[str, tuple[float, float]] = {}
        self._accuracies: dict[str, Accuracy] = {}  # with their samples, of those where these are known
        self._divergences: dict[str, float] = {}  # by recipe and baseline
        self.texts = ""  # how much of the texts in use is cut, in words
        self._static: dict[int, tuple[Graph, Score]] = {}
        self._scorer = Scorer()

    def begin(self, result: OpenResult) -> None:
        """Take what was counted where the project was opened, and what the project holds."""
        if result.scorer:
            self._scorer = result.scorer
            self._static = {id(graph): (graph, score) for graph, score in result.scores}
        self.restore(result.project)

    def use(self, options: EvaluateOptions) -> None:
        """Measure on this data from now on; figures of other data, or of files that changed since, are forgotten."""
        if not self.holds(options):
            self.options = options
            self._clear()
        self._files = _files(options)

    def holds(self, options: EvaluateOptions) -> bool:
        """Whether the figures are of these data, as their files are now."""
        return options == self.options and self._files in (None, _files(options))

    def _clear(self) -> None:
        self._found.clear()
        self._accuracies.clear()
        self._divergences.clear()
        self.texts = ""

    def known(self, recipe: Recipe) -> bool:
        """Whether a recipe has been measured on the data in use."""
        return recipe_key(recipe) in self._found

    def put(self, recipe: Recipe, options: EvaluateOptions, summary: dict[str, Any], chosen: bool = False) -> None:
        """Keep what an evaluation found, or what of it was measured, unless other data is in use and not `chosen`."""
        if chosen or not self.options.data:
            self.use(options)
        if options == self.options:
            key = recipe_key(recipe)
            self.texts = text_words(summary) or self.texts
            if "loss" in summary:
                self._found[key] = (summary["accuracy"], summary["loss"])
                self._accuracies.pop(key, None)
            if found := accuracy_of(summary):
                self._accuracies[key] = found

    def put_divergence(self, recipe: Recipe, options: EvaluateOptions, kl: float | None, baseline: Baseline) -> None:
        """Keep how far the outputs of a recipe were measured to be from a baseline's."""
        if kl is not None and options == self.options:
            key = baseline.key(recipe)
            self._divergences.pop(key, None)
            self._divergences[key] = kl

    def divergence(self, recipe: Recipe, baseline: Baseline) -> float | None:
        """How far the outputs are from the baseline's, as measured of a recipe; None where that was not."""
        return self._divergences.get(baseline.key(recipe))

    def accuracy(self, recipe: Recipe) -> Accuracy | None:
        """The accuracy of a recipe with the samples that it was measured on; None where these are not known."""
        return self._accuracies.get(recipe_key(recipe))

    def score(self, graph: Graph, recipe: Recipe) -> Score:
        """Static score of `graph` with what was measured of `recipe`."""
        static = self._static_score(graph)
        found = self._found.get(recipe_key(recipe))
        return static.measured(*found) if found else static

    def _static_score(self, graph: Graph) -> Score:
        held = self._static.pop(id(graph), None)
        if held is None or held[0] is not graph:
            self._static = dict(list(self._static.items())[-20:])
            held = graph, self._scorer.score(graph)
        self._static[id(graph)] = held  # last in line: the baseline, asked for at each edit, is never counted again
        return held[1]

    def to_json(self, recipe: Recipe) -> dict[str, Any]:
        """{"scores": …} for the project file: the model as opened and the present recipe, divergences by key."""
        found = {k: held for k, r in (("baseline", Recipe()), ("present", recipe)) if (held := self._told(r))}
        if self._divergences:
            found["kl"] = dict(list(self._divergences.items())[-KEPT:])
        return {"scores": {"options": asdict(self.options), **found}} if found else {}

    def _told(self, recipe: Recipe) -> dict[str, Any]:
        held, accuracy = self._found.get(recipe_key(recipe)), self.accuracy(recipe)
        if held is None:
            return {}
        more = {} if accuracy is None else {k: v for k, v in asdict(accuracy).items() if k != "value"}
        return dict(zip(SCORES, held, strict=True)) | more

    def restore(self, project: Project) -> None:
        """Take the scores of an opened project; what does not fit is left out."""
        held = project.reports.get("scores")
        if not isinstance(held, dict):
            return
        try:
            self.options = EvaluateOptions(**held["options"])
            for name, recipe in (("baseline", Recipe()), ("present", project.recipe)):
                if name in held:
                    told: dict[str, Any] = (
                        held[name] if isinstance(held[name], dict) else dict(zip(SCORES, held[name], strict=True))
                    )
                    self._found[recipe_key(recipe)] = (float(told["accuracy"]), float(told["loss"]))
                    if found := accuracy_of(told):
                        self._accuracies[recipe_key(recipe)] = found
            self._divergences = {str(k): float(v) for k, v in held.get("kl", {}).items()}
        except Exception:  # noqa: BLE001
            self._clear()
