"""Where a search begins: the configurations of least predicted divergence under its constraints or along a cost."""

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
from espalier.passes.allocation.problem import Group, Problem, Whole
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import Cancelled, Context, run_step
from espalier.passes.costs.base import COSTS, Cost, Floats, figures
from espalier.passes.costs.limits import Limit
from espalier.passes.score import Scorer
from espalier.passes.search.format_lists import FLOAT, format_of
from espalier.passes.search.goals import Wanted
from espalier.passes.search.refine import Field
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.trial_graph import candidates, planned
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.table import Candidate

SAMPLES, TRUE = 256, 12  # samples of the pass with gradients; true measurements that correct it
SECONDS = 30.0  # under limits, for each of the two before the first trial; the rest is found between trials
NEAR = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8)  # shares of a budget, of what it leaves to decide, that a start tries
FIRST = 2  # of them that do: the others learn from these
NO_CHANGE = Candidate()


@dataclass(frozen=True, slots=True)
class Forecast:
    """Configurations to begin with, the most promising first; under limits, the field in which the search goes on.

    `whole`: whether it is from all gradients that there are to be.
    """

    starts: tuple[dict[str, Any], ...]
    field: Field | None = None
    whole: bool = True


def forecast(
    space: Space, graph: Graph, want: Wanted, context: Context, count: int,
    in_time: Callable[[float], float],
) -> Forecast | None:  # fmt: skip
    """Where to begin, with at most `count` configurations; None where nothing can be predicted.

    Under limits: close below them; with a cost among the goals: spread along it.
    """
    costs = costs_of(want)
    if not costs or any(c.when for c in space.choices) or not any(_felt(c) for c in space.choices):
        return None
    names = [c.name for c in costs]
    limits, wished = _limits(want, names), [g.figure for g in want.goals if g.figure in names]
    led = bool(limits) and not wished
    # Along a cost all starts are made now, and none later from gradients that are found meanwhile: so from all of them.
    ask = _Asked(space, graph, context, in_time(SECONDS if led else 0.0))
    problem = _problem(ask, space, graph, costs)
    if led:
        field = Field(problem, _budgets(problem, limits, names))
        near = (exact(problem, field.within(share)) for share in NEAR)
        return Forecast(_different(space, near, min(FIRST, count)), field, ask.whole)
    number = names.index(wished[0]) if wished else 0
    return Forecast(_different(space, reversed(Hulls(problem, number).front(max(count, 2))), count))


def _different(space: Space, solutions: Iterable[Solution | None], count: int) -> tuple[dict[str, Any], ...]:
    """The first `count` that are no two the same."""
    found = {tuple(s.picks.tolist()): s.picks for s in itertools.islice(filter(None, solutions), 4 * count)}
    return tuple(params_of(space, p) for p in itertools.islice(found.values(), count))


def params_of(space: Space, picks: Whole) -> dict[str, Any]:
    """A solution as a trial's choices."""
    chosen = {c.name: _value(c, int(i)) for c, i in zip(space.choices, picks, strict=True)}
    return {c.name: chosen[c.name] for c in space.active(chosen)}


def picks_of(space: Space, params: Mapping[str, Any]) -> Whole | None:
    """A trial's choices as a solution; None where it has others."""
    try:
        picks = [c.values.index(params[c.name]) if _felt(c) else 0 for c in space.choices]
    except (KeyError, ValueError):
        return None
    return np.array(picks, np.int64)


def costs_of(want: Wanted) -> tuple[Cost, ...]:
    """The costs that are limited or wanted and that are sums over layers; limited ones first."""
    names = dict.fromkeys([*(limit.figure for limit in want.limits), *(g.figure for g in want.goals)])
    found = (COSTS.get(n) for n in names if n in COSTS)
    return tuple(c for c in found if c.shares is not None and c.of is not None)


def _limits(want: Wanted, names: Sequence[str]) -> list[Limit]:
    return [x for x in want.limits if x.figure in names and x.side == ("<=" if _low(x.figure) else ">=")]


def _low(figure: str) -> bool:
    return COSTS.get(figure).better == "low"


def _budgets(problem: Problem, limits: list[Limit], names: list[str]) -> tuple[float, ...]:
    """What the limits leave of each cost; of one without a limit more than all there is."""
    most = problem.rest + problem.amounts.max(axis=2, initial=0, where=np.isfinite(problem.amounts)).sum(axis=1) + 1
    for limit in limits:
        at = names.index(limit.figure)
        most[at] = min(most[at], problem.amount(at, limit.value))
    return tuple(most.tolist())


# -- what is known


def _felt(choice: Choice) -> bool:
    return choice.kind in ("format", "sparsity") and bool(choice.values)


def _problem(ask: _Asked, space: Space, graph: Graph, costs: tuple[Cost, ...]) -> Problem:
    divergences = _divergences(ask, space)
    scorer = Scorer()
    start = _counted(graph, space, costs, scorer)
    base = _amounts(start, graph, costs, scorer)
    groups: list[Group] = []
    for choice, kl in zip(space.choices, divergences, strict=True):
        rows = [_amounts(_with(start, space, choice, i), graph, costs, scorer) - base for i in range(len(kl))]
        groups.append(Group((), np.arange(len(kl))[None], np.array(kl), np.array(rows).T.reshape(len(costs), -1)))
    return Problem(tuple(groups), base, costs, graph)


def _counted(graph: Graph, space: Space, costs: tuple[Cost, ...], scorer: Scorer) -> Graph:
    """The graph; with the first format of each choice where a cost is not known without (those of hardware)."""
    told = figures(graph, scorer.score(graph))
    if all(c.name in told for c in costs):
        return graph
    for choice in space.choices:
        first = next((i for i, v in enumerate(choice.values) if v != FLOAT), None)
        if choice.kind == "format" and first is not None:
            graph = _with(graph, space, choice, first)
    return graph


def _amounts(graph: Graph, reference: Graph, costs: tuple[Cost, ...], scorer: Scorer) -> Floats:
    """The signed sums of a graph's costs; raises OptionsError where one is not known of it."""
    told = figures(graph, scorer.score(graph))
    unknown = [c.name for c in costs if c.name not in told]
    if unknown:
        raise OptionsError(f"{unknown[0]} is not known of every configuration.", "Let all layers take formats.")
    return np.array([c.sign * c.shares.amount(told[c.name], reference) for c in costs if c.shares])


def _value(choice: Choice, number: int) -> Any:
    """A value of a choice; of what nothing is known, the one that changes least."""
    if _felt(choice):
        return choice.values[number]
    if choice.values:
        return choice.values[-1 if choice.ordered else 0]
    return choice.low if choice.low is not None and not choice.whole else int(choice.low or 0)


def _with(graph: Graph, space: Space, choice: Choice, number: int) -> Graph:
    """The graph with one choice made."""
    return planned(graph, space, choice, choice.values[number]) if _felt(choice) else graph


def _divergences(ask: _Asked, space: Space) -> list[list[float]]:
    """Per choice and value, summed over its places; 0 for what nothing is known of."""
    found: list[list[float]] = []
    for choice in space.choices:
        count = len(choice.values) if _felt(choice) else 1
        each = [sum(ask.of(*c) for c in candidates(space, choice, choice.values[i])) if _felt(choice) else 0.0
                for i in range(count)]  # fmt: skip
        found.append(each)
    return found


def _step(space: Space, seconds: float) -> Step:
    """What is asked of the pass: some of the space's formats, at its ports; whatever seed the search has."""
    score = space.score
    own = {n: getattr(score, n) for n in ("data", "split", "text", "label", "tokenizer", "max_length")}
    chosen = [c for c in space.choices if c.kind == "format"]
    texts = dict.fromkeys(str(v) for c in chosen for v in c.values if v != FLOAT)
    formats = tuple(f for t in [*texts][:: max(1, len(texts) // 6)] if (f := format_of(t)) is not None)
    ports = tuple(dict.fromkeys(p for c in chosen for p in c.ports)) if formats else ()
    options = SensitivityOptions(**own, limit=SAMPLES, formats=formats, measure=TRUE if formats else 0, ports=ports,
                                 configurations=0, seconds=seconds)  # fmt: skip
    return Step("sensitivity", options)


def gathered(space: Space, graph: Graph, context: Context, seconds: float) -> bool:
    """Go on with the gradients for about so long: whether that is all of them."""
    from espalier.passes.analysis.sensitivity import gather

    step = _step(space, seconds)
    return gather(graph, step.options, replace(context, seed=step.seed))


class _Asked:
    """Predictions for single candidates, from the evidence of one pass with gradients."""

    def __init__(self, space: Space, graph: Graph, context: Context, seconds: float) -> None:
        from espalier.passes.analysis.sensitivity import kept_places
        from espalier.passes.sensitivity.gradient_statistics import load

        told = run_step(graph, _step(space, seconds), context).report.summary
        level, steep, loud = told["correction"]
        self.by = Correction(level, steep, loud, count=1)
        self.whole = "of_samples" not in told
        self.evidence = load(Path(told["evidence"]))
        _, self.run, places = kept_places(graph, context.base)
        self.places = {(p.node, p.port): p for p in places}
        self.store = context.store
        self._subjects: dict[tuple[str, str], Any] = {}

    def of(self, node: str, port: str, candidate: Candidate) -> float:
        """Nats a sample; what breaks the outputs costs much, and what is not known nothing."""
        from espalier.passes.sensitivity.full_table import fast_rounded
        from espalier.passes.sensitivity.port_predictor import port_predictor

        place = self.places.get((node, port))
        if place is None or candidate == NO_CHANGE:
            return 0.0
        if (node, port) not in self._subjects:
            self._subjects[node, port] = port_predictor(place, self.evidence, self.run, self.store)
        held = self._subjects[node, port]
        if held is None:
            return 0.0
        kl, noise = held.tried(candidate, fast_rounded)
        return min(max(self.by.of(kl, noise), 0.0), 1e6)


def promising(
    space: Space, graph: Graph, want: Wanted, context: Context, count: int, in_time: Callable[[float], float]
) -> Forecast | None:
    """The forecast; a search begins without one all the same."""
    try:
        return forecast(space, graph, want, context, count, in_time)
    except Cancelled:
        raise
    except EspalierError:
        return None
