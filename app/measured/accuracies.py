"""Measured accuracies by recipe and data, so that undo brings a measured score back without a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from model.graph import Graph
from model.project import Project
from model.recipe import Recipe
from passes.analysis.evaluate import EvaluateOptions
from passes.data_fit import text_words
from passes.jobs import OpenResult
from passes.replay import recipe_key
from passes.score import Score, Scorer

KEPT = 64  # divergences that a project file holds


class Measures:
    """Accuracy and loss by recipe for the data in use; static scores by graph identity."""

    def __init__(self) -> None:
        self.options = EvaluateOptions()
        self._found: dict[str, tuple[float, float]] = {}
        self._divergences: dict[str, float] = {}  # from the baseline, by recipe as well
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
        """Measure on this data from now on; figures of other data are forgotten."""
        if options != self.options:
            self.options = options
            self._found.clear()
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
            key, kl = recipe_key(recipe), summary.get("kl")
            self.texts = text_words(summary) or self.texts
            if "loss" in summary:
                self._found[key] = (summary["accuracy"], summary["loss"])
            if kl is not None:
                self._divergences.pop(key, None)
                self._divergences[key] = kl

    def divergence(self, recipe: Recipe) -> float | None:
        """How far the outputs are from the baseline's, as measured of a recipe; None where that was not."""
        return self._divergences.get(recipe_key(recipe))

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
        """{"scores": …} for the project file: baseline and present recipe, divergences of the last recipes by key."""
        kept = {k: self._found.get(recipe_key(r)) for k, r in (("baseline", Recipe()), ("present", recipe))}
        found: dict[str, Any] = {k: list(v) for k, v in kept.items() if v}
        if self._divergences:
            found["divergences"] = dict(list(self._divergences.items())[-KEPT:])
        return {"scores": {"options": asdict(self.options), **found}} if found else {}

    def restore(self, project: Project) -> None:
        """Take the scores of an opened project; what does not fit is left out."""
        held = project.reports.get("scores")
        if not isinstance(held, dict):
            return
        try:
            self.options = EvaluateOptions(**held["options"])
            for name, recipe in (("baseline", Recipe()), ("present", project.recipe)):
                if name in held:
                    accuracy, loss = held[name]
                    self._found[recipe_key(recipe)] = (float(accuracy), float(loss))
            self._divergences = {str(k): float(v) for k, v in held.get("divergences", {}).items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            self._found.clear()
            self._divergences.clear()
