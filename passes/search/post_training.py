"""Trials that train nothing: the recipe's graph is costed, then run on the data by one evaluator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.costs.base import COSTS, measured
from espalier.passes.costs.base import figures as costs_of
from espalier.passes.dominant import dominant_fields
from espalier.passes.recipes.replay import Memo, recipe_key, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Scorer
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.goals import KL, MEASURED, Wanted
from espalier.passes.search.space import Space
from espalier.passes.search.trial_run import Order

MOST = 1 << 25  # margins that are kept


def _spelled(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True)


class Plain:
    """One for a whole study: the data, the baseline's results and quantised weights stay."""

    def __init__(
        self, base: Graph, score: EvaluateOptions, want: Wanted, memo: Memo, rungs: tuple[int, ...], space: Space
    ) -> None:
        self.base, self.options, self.want, self.memo = base, score, want, memo
        self.scorer = Scorer()
        self.rungs = rungs
        self._evaluator: Evaluator | None = None
        self._last: tuple[str, Graph] | None = None
        self._costs: tuple[Graph, dict[str, float]] | None = None
        self._margins: dict[str, Any] = {}
        self.noise: dict[str, Any] = {}  # of the accuracy of the trial that ran last
        self.bits: dict[str, Any] = {}  # what holds up the average of stored bits of the graph that was costed last

    def key(self, order: Order) -> str:
        """The recipe alone decides, unless formats round by chance."""
        return recipe_key(order.recipe)

    def graph(self, order: Order) -> Graph:
        """What the recipe leads to."""
        key = recipe_key(order.recipe)
        if self._last is None or self._last[0] != key:
            self._last = key, replay(self.base, order.recipe, order.context, self.memo).graph
        return self._last[1]

    def costs(self, order: Order) -> dict[str, float]:
        """The static score and all costs that need no run."""
        graph = self.graph(order)
        if self._costs is None or self._costs[0] is not graph:
            score = self.scorer.score(graph)
            told = {k: float(v) for k, v in asdict(score).items() if v is not None}
            self.bits = dominant_fields(graph)
            self._costs = graph, told | {k: float(v) for k, v in costs_of(graph, score).items()}
        return dict(self._costs[1])

    def figures(self, order: Order) -> dict[str, float]:
        """What is wanted besides, measured."""
        graph, found = self.graph(order), self.costs(order)
        if any(f in MEASURED for f in self.want.figures):
            found |= self.evaluator(order.context).measure(graph, order.show, KL in self.want.figures)
            self._keep(_spelled(order.params))
            self.noise = self.evaluator(order.context).noise
        for name in self.want.figures:
            if name not in found and name in COSTS:
                found |= measured(name, graph, self.options, order.context)
        return found

    def margins(self, params: Mapping[str, Any], graph: Graph | None = None) -> Any:
        """By how much each sample's class is ahead in a trial; None of one that ran elsewhere. `graph`: of this one."""
        name = _spelled(params) if graph is None else fingerprint(graph)
        if graph is not None and name not in self._margins and self._evaluator is not None:
            self._evaluator.measure(graph)
            self._keep(name)
        return self._margins.get(name)

    def _keep(self, name: str) -> None:
        if self._evaluator is not None and len(self._margins) * self._evaluator.total < MOST:
            self._margins[name] = self._evaluator.margins

    def evaluator(self, context: Context) -> Evaluator:
        """The evaluator, made when it is first needed."""
        if self._evaluator is None:
            self._evaluator = Evaluator(self.base, self.options, context, self.rungs)
        self._evaluator.context = context
        return self._evaluator

    def samples(self, order: Order) -> Any:
        """(losses, correct) of each sample, of the recipe: what rungs compare with."""
        evaluator = self.evaluator(order.context)
        name = fingerprint(self.graph(order))
        if name not in evaluator.known:
            evaluator.measure(self.graph(order))
        return evaluator.known[name]
