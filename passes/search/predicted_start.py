"""Predicts first trials: the configurations of least divergence under the constraints, or along a cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.convex_hulls import Hulls, Solution
from espalier.passes.allocation.exact_solver import exact
from espalier.passes.allocation.problem import Group, Ints, Problem
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import Cancelled, Context, run_step
from espalier.passes.costs.base import COSTS, Cost, Floats, figures
from espalier.passes.costs.limits import Limit
from espalier.passes.running.splits import WHICH
from espalier.passes.score import Scorer
from espalier.passes.search.format_lists import FLOAT, format_of
from espalier.passes.search.goals import Wanted
from espalier.passes.search.refine import Field
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.trial_graph import candidates, planned
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.table import Candidate

SAMPLES, TRUE = 256, 12  # samples of the pass with gradients; measured configurations that correct it
SECONDS = 30.0  # under limits, of gradients and of measurements before the first trial; the rest between trials
SHARES = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8)  # of the free budget, one first trial each
FIRST = 2  # of these trials that are enqueued; later ones use their results
NO_CHANGE = Candidate()


@dataclass(frozen=True, slots=True)
class Forecast:
    """First configurations, the most promising first; under limits, the field that proposes further ones.

    `complete`: whether all gradients have been gathered.
    """

    starts: tuple[dict[str, Any], ...]
    field: Field | None = None
    complete: bool = True


def forecast(
    space: Space, graph: Graph, want: Wanted, context: Context, count: int,
    in_time: Callable[[float], float],
) -> Forecast | None:  # fmt: skip
    """At most `count` first configurations; None if nothing can be predicted.

    Under limits: close below them; with a cost among the goals: spread along it. Raises EspalierError.
    """
    costs = costs_of(want)
    if not costs or any(c.when for c in space.choices) or not any(_is_predicted(c) for c in space.choices):
        return None
    names = [c.name for c in costs]
    limits, cost_goals = _limits(want, names), [g.figure for g in want.goals if g.figure in names]
    limited = bool(limits) and not cost_goals
    # Along a cost all starts are computed now and none are refined later: so from all gradients.
    predictor = _Predictor(space, graph, context, in_time(SECONDS if limited else 0.0))
    problem = _problem(predictor, space, graph, costs)
    if limited:
        field = Field(problem, _budgets(problem, limits, names))
        near = (exact(problem, field.within(share)) for share in SHARES)
        return Forecast(_distinct(space, near, min(FIRST, count)), field, predictor.complete)
    number = names.index(cost_goals[0]) if cost_goals else 0
    return Forecast(_distinct(space, reversed(Hulls(problem, number).front(max(count, 2))), count))


def _distinct(space: Space, solutions: Iterable[Solution | None], count: int) -> tuple[dict[str, Any], ...]:
    """The parameters of the first `count` distinct solutions."""
    distinct = {tuple(s.picks.tolist()): s.picks for s in itertools.islice(filter(None, solutions), 4 * count)}
    return tuple(params_of(space, p) for p in itertools.islice(distinct.values(), count))


def params_of(space: Space, picks: Ints) -> dict[str, Any]:
    """The parameters of a solution."""
    chosen = {c.name: _value(c, int(i)) for c, i in zip(space.choices, picks, strict=True)}
    return {c.name: chosen[c.name] for c in space.active(chosen)}


def picks_of(space: Space, params: Mapping[str, Any]) -> Ints | None:
    """The solution of a trial's parameters; None if they are of another space."""
    try:
        picks = [c.values.index(params[c.name]) if _is_predicted(c) else 0 for c in space.choices]
    except (KeyError, ValueError):
        return None
    return np.array(picks, np.int64)


def costs_of(want: Wanted) -> tuple[Cost, ...]:
    """The costs among limits and goals that are sums over layers; limits first."""
    names = dict.fromkeys([*(limit.figure for limit in want.limits), *(g.figure for g in want.goals)])
    costs = (COSTS.get(n) for n in names if n in COSTS)
    return tuple(c for c in costs if c.shares is not None and c.of is not None)


def _limits(want: Wanted, names: Sequence[str]) -> list[Limit]:
    return [x for x in want.limits if x.figure in names and x.side == ("<=" if _low(x.figure) else ">=")]


def _low(figure: str) -> bool:
    return COSTS.get(figure).better == "low"


def _budgets(problem: Problem, limits: list[Limit], names: list[str]) -> tuple[float, ...]:
    """The budget of each cost, signed; above the maximum for a cost without a limit."""
    budgets = problem.rest + problem.amounts.max(axis=2, initial=0, where=np.isfinite(problem.amounts)).sum(axis=1) + 1
    for limit in limits:
        at = names.index(limit.figure)
        budgets[at] = min(budgets[at], problem.amount(at, limit.value))
    return tuple(budgets.tolist())


# -- divergences and costs of each value


def _is_predicted(choice: Choice) -> bool:
    return choice.kind in ("format", "sparsity") and bool(choice.values)


def _problem(predictor: _Predictor, space: Space, graph: Graph, costs: tuple[Cost, ...]) -> Problem:
    divergences = _divergences(predictor, space)
    scorer = Scorer()
    start = _with_known_costs(graph, space, costs, scorer)
    base = _amounts(start, graph, costs, scorer)
    groups: list[Group] = []
    for choice, kl in zip(space.choices, divergences, strict=True):
        rows = [_amounts(_with(start, space, choice, i), graph, costs, scorer) - base for i in range(len(kl))]
        groups.append(Group((), np.arange(len(kl))[None], np.array(kl), np.array(rows).T.reshape(len(costs), -1)))
    return Problem(tuple(groups), base, costs, graph)


def _with_known_costs(graph: Graph, space: Space, costs: tuple[Cost, ...], scorer: Scorer) -> Graph:
    """The graph; with the first format of each choice if a cost (of hardware) is undefined without formats."""
    values = figures(graph, scorer.score(graph))
    if all(c.name in values for c in costs):
        return graph
    for choice in space.choices:
        first = next((i for i, v in enumerate(choice.values) if v != FLOAT), None)
        if choice.kind == "format" and first is not None:
            graph = _with(graph, space, choice, first)
    return graph


def _amounts(graph: Graph, reference: Graph, costs: tuple[Cost, ...], scorer: Scorer) -> Floats:
    """(costs,) signed amounts of a graph; raises OptionsError if a cost is undefined for it."""
    values = figures(graph, scorer.score(graph))
    undefined = [c.name for c in costs if c.name not in values]
    if undefined:
        raise OptionsError(f"{undefined[0]} is not known of every configuration.", "Let all layers take formats.")
    return np.array([c.sign * c.shares.amount(values[c.name], reference) for c in costs if c.shares])


def _value(choice: Choice, number: int) -> Any:
    """Value `number` of a choice; for a choice that is not predicted, the value that changes least."""
    if _is_predicted(choice):
        return choice.values[number]
    if choice.values:
        return choice.values[-1 if choice.ordered else 0]
    return choice.low if choice.low is not None and not choice.whole else int(choice.low or 0)


def _with(graph: Graph, space: Space, choice: Choice, number: int) -> Graph:
    """The graph with one choice applied."""
    return planned(graph, space, choice, choice.values[number]) if _is_predicted(choice) else graph


def _divergences(predictor: _Predictor, space: Space) -> list[list[float]]:
    """KL by choice and value, in nats a sample, summed over nodes and ports; 0 for choices that are not predicted."""
    return [
        [sum(predictor.kl(*c) for c in candidates(space, choice, v)) for v in choice.values]
        if _is_predicted(choice)
        else [0.0]
        for choice in space.choices
    ]


def _step(space: Space, seconds: float) -> Step:
    """The sensitivity pass on some of the space's formats, at its ports; the same for every seed of the search."""
    score = space.score
    data = {n: getattr(score, n) for n in ("split", *WHICH)}
    chosen = [c for c in space.choices if c.kind == "format"]
    texts = dict.fromkeys(str(v) for c in chosen for v in c.values if v != FLOAT)
    formats = tuple(f for t in [*texts][:: max(1, len(texts) // 6)] if (f := format_of(t)) is not None)
    ports = tuple(dict.fromkeys(p for c in chosen for p in c.ports)) if formats else ()
    options = SensitivityOptions(**data, limit=SAMPLES, formats=formats, measure=TRUE if formats else 0, ports=ports,
                                 configurations=0, seconds=seconds)  # fmt: skip
    return Step("sensitivity", options)


def gathered(space: Space, graph: Graph, context: Context, seconds: float) -> bool:
    """Gather gradients for about `seconds`; returns whether all have been gathered."""
    from espalier.passes.analysis.sensitivity import gather

    step = _step(space, seconds)
    return gather(graph, step.options, replace(context, seed=step.seed))


class _Predictor:
    """Predicts the divergence of single candidates from the gradient statistics of one sensitivity pass."""

    def __init__(self, space: Space, graph: Graph, context: Context, seconds: float) -> None:
        from espalier.passes.analysis.sensitivity import gradient_ports
        from espalier.passes.sensitivity.gradient_statistics import load

        summary = run_step(graph, _step(space, seconds), context).report.summary
        level, steep, loud = summary["correction"]
        self._correction = Correction(level, steep, loud, count=1)
        self.complete = "of_samples" not in summary
        self._statistics = load(Path(summary["evidence"]))
        _, self._run, ports = gradient_ports(graph, context.base)
        self._ports = {(p.node, p.port): p for p in ports}
        self._store = context.store
        self._predictors: dict[tuple[str, str], Any] = {}

    def kl(self, node: str, port: str, candidate: Candidate) -> float:
        """Nats a sample, at most 1e6; 0 for a port without statistics."""
        from espalier.passes.sensitivity.full_table import fast_rounded
        from espalier.passes.sensitivity.port_predictor import port_predictor

        ref = self._ports.get((node, port))
        if ref is None or candidate == NO_CHANGE:
            return 0.0
        if (node, port) not in self._predictors:
            self._predictors[node, port] = port_predictor(ref, self._statistics, self._run, self._store)
        predictor = self._predictors[node, port]
        if predictor is None:
            return 0.0
        kl, noise = predictor.kl_and_noise(candidate, fast_rounded)
        return min(max(self._correction.of(kl, noise), 0.0), 1e6)


def promising(
    space: Space, graph: Graph, want: Wanted, context: Context, count: int, in_time: Callable[[float], float]
) -> Forecast | None:
    """The forecast; None if it fails: a search runs without one too."""
    try:
        return forecast(space, graph, want, context, count, in_time)
    except Cancelled:
        raise
    except EspalierError:
        return None
