"""Runs trials without training: the recipe's graph is costed, then run on the data by one evaluator."""

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
from espalier.passes.search.goals import KL, Wanted, is_measured
from espalier.passes.search.space import Space
from espalier.passes.search.trial_run import Order

MAX_MARGINS = 1 << 25  # values that stay in memory


def _params_key(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True)


class Plain:
    """One instance per study: its trials share the data, the baseline's results and quantised weights."""

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
        self.noise: dict[str, Any] = {}  # interval data of the main metric measured last
        self.bits: dict[str, Any] = {}  # the layer that dominates the average stored bits of the graph costed last

    def key(self, order: Order) -> str:
        """The key of the recipe."""
        return recipe_key(order.recipe)

    def graph(self, order: Order) -> Graph:
        """The result of the recipe."""
        key = recipe_key(order.recipe)
        if self._last is None or self._last[0] != key:
            self._last = key, replay(self.base, order.recipe, order.context, self.memo).graph
        return self._last[1]

    def costs(self, order: Order) -> dict[str, float]:
        """The static score and the costs that need no data."""
        graph = self.graph(order)
        if self._costs is None or self._costs[0] is not graph:
            score = self.scorer.score(graph)
            values = {k: float(v) for k, v in asdict(score).items() if v is not None}
            self.bits = dominant_fields(graph)
            self._costs = graph, values | {k: float(v) for k, v in costs_of(graph, score).items()}
        return dict(self._costs[1])

    def figures(self, order: Order) -> dict[str, float]:
        """Costs and measured figures."""
        graph, values = self.graph(order), self.costs(order)
        if any(is_measured(f) for f in self.want.figures):
            values |= self.evaluator(order.context).measure(graph, order.show, KL in self.want.figures)
            self._store_margins(_params_key(order.params))
            self.noise = self.evaluator(order.context).noise
        for name in self.want.figures:
            if name not in values and name in COSTS:
                values |= measured(name, graph, self.options, order.context)
        return values

    def margins(self, params: Mapping[str, Any], graph: Graph | None = None) -> Any:
        """(samples,) margins of a trial, None if it ran in another process; with `graph`, those of that graph."""
        name = _params_key(params) if graph is None else fingerprint(graph)
        if graph is not None and name not in self._margins and self._evaluator is not None:
            self._evaluator.measure(graph)
            self._store_margins(name)
        return self._margins.get(name)

    def _store_margins(self, name: str) -> None:
        if self._evaluator is not None and len(self._margins) * self._evaluator.total < MAX_MARGINS:
            self._margins[name] = self._evaluator.margins

    def evaluator(self, context: Context) -> Evaluator:
        """The evaluator, created on first use."""
        if self._evaluator is None:
            self._evaluator = Evaluator(self.base, self.options, context, self.rungs)
        self._evaluator.context = context
        return self._evaluator

    def samples(self, order: Order) -> Any:
        """(losses, correct) per sample of the recipe's graph, which rungs compare with."""
        evaluator = self.evaluator(order.context)
        name = fingerprint(self.graph(order))
        if name not in evaluator.samples:
            evaluator.measure(self.graph(order))
        return evaluator.samples[name]
