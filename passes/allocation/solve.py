"""Budgets in, allocation out: solved exactly, then held against the true static score and drawn in until it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.exact import exact, least_under
from espalier.passes.allocation.hulls import Hulls, Solution
from espalier.passes.allocation.places import Column, Place, Slot, slots
from espalier.passes.allocation.plan import Allocation, configured
from espalier.passes.allocation.predicted_fronts import Falling, Tell, falling, fronts
from espalier.passes.allocation.problem import Problem, counted
from espalier.passes.costs.base import Cost, Floats, cost, figures
from espalier.passes.costs.limits import Limit
from espalier.passes.score import Scorer
from espalier.passes.sensitivity.table import Candidate, Sensitivity

ROUNDS = 12
HELD = 1e-9  # share of a limit by which a sum of floats may miss it
WIDER = "Raise it, or let cheaper formats or more pruning compete."


@dataclass(frozen=True, slots=True)
class Competing:
    """Who competes: columns (None: all of the table), float besides, at which ports, with nodes that are tied."""

    columns: tuple[Column, ...] | None = None
    whole: bool = True
    tied: tuple[tuple[str, ...], ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a front: the cost's figure as the shares add up to it, the sum of the divergences, and the choices."""

    figure: float
    predicted: float
    chosen: dict[Place, Candidate]


@dataclass(frozen=True, slots=True)
class Held:
    """An allocation that holds its limits by the true costs, and the solution of the knapsack that it came from."""

    made: Allocation
    solution: Solution


def problem_of(
    graph: Graph, table: Sequence[Sensitivity], costs: Iterable[str], competing: Competing | None = None
) -> Problem:
    """The knapsack of a table under some costs; raises OptionsError. What no cost looks at is not in it."""
    who, wanted = competing or Competing(), [cost(name) for name in dict.fromkeys(costs)]
    for each in wanted:
        if each.shares is None:
            raise OptionsError(
                f"{each.name} is not a sum over layers, so it cannot be a budget.", "Choose another cost."
            )
    ports = who.ports or tuple(dict.fromkeys(r.port for r in table))
    found = slots(table, graph, who.columns, whole=who.whole, tied=who.tied, ports=ports)
    return counted(graph, [s for s in found if any(_looks_at(c, s) for c in wanted)], wanted)


def _looks_at(each: Cost, slot: Slot) -> bool:
    """Whether a cost hangs on what a slot takes."""
    shares = each.shares
    assert shares is not None
    computed = shares.node is not None and any(p in shares.ports for _, p in slot.places)
    return computed or (shares.weight is not None and bool(slot.weights))


def allocate(
    graph: Graph, table: Sequence[Sensitivity], limits: Sequence[Limit], competing: Competing | None = None,
    tell: Tell | None = None,
) -> Allocation:  # fmt: skip
    """The allocation of least predicted divergence whose true costs hold the limits.

    `tell`: the divergence of a whole; a front's point with less of it takes the place of that with the least sum.
    Raises OptionsError where there is none, with the least that is possible.
    """
    names = [limit.figure for limit in limits]
    free, predicted = unlimited(graph, table, names, competing or Competing())
    problem = problem_of(configured(graph, free) if free else graph, table, names, competing)
    names = [c.name for c in problem.costs]
    limits = [min((x for x in limits if x.figure == n), key=lambda x: problem.amount(names.index(n), x.value))
              for n in names]  # fmt: skip
    check_possible(problem, limits)
    best = held(problem, limits)
    if tell is not None:

        def whole(chosen: Mapping[Place, Candidate]) -> float:
            """The divergence of these and of what is free."""
            return tell({**chosen, **free})

        best = better(problem, limits, best, whole, fronts(problem, whole))
    made = best.made
    return replace(made, chosen={**made.chosen, **free}, predicted=made.predicted + predicted)


def unlimited(
    graph: Graph, table: Sequence[Sensitivity], costs: Iterable[str], who: Competing
) -> tuple[dict[Place, Candidate], float]:
    """What the ports that were asked for take where no cost looks at them and float is no choice (biases, say): the
    format that changes the outputs least; and what all of it changes.
    """
    if who.whole or not who.ports:
        return {}, 0.0
    wanted = [cost(name) for name in dict.fromkeys(costs)]
    chosen, predicted = dict[Place, Candidate](), 0.0
    for slot in slots(table, graph, who.columns, whole=False, tied=who.tied, ports=who.ports):
        if any(_looks_at(c, slot) for c in wanted):
            continue
        best = min(range(len(slot.kl)), key=slot.kl.__getitem__)
        chosen |= {place: held[best] for place, held in zip(slot.places, slot.choices, strict=True)}
        predicted += slot.kl[best]
    return chosen, predicted


def settled(graph: Graph, limits: Sequence[Limit]) -> tuple[Graph, tuple[Step, ...], list[Limit]]:
    """Limits that each node holds by itself, whatever its formats, held: the graph, its steps, and the other limits.

    Raises OptionsError where they cannot be, or where no other is left to decide formats.
    """
    steps: list[Step] = []
    for limit in limits:
        if settle := cost(limit.figure).settle:
            graph, step = settle(graph, limit.value)
            steps.append(step)
    rest = [x for x in limits if cost(x.figure).settle is None]
    if limits and not rest:
        raise OptionsError(f"{limits[0].text} alone decides no format.", "Add a budget that does, such as lut<=20000.")
    return graph, tuple(steps), rest


def check_possible(problem: Problem, limits: Sequence[Limit]) -> None:
    """Raise OptionsError for a limit that not even the cheapest of everything holds."""
    for number, limit in enumerate(limits):
        amount, least = problem.amount(number, limit.value), float(problem.least[number])
        if least > amount + HELD * max(abs(amount), abs(least)):
            raise _beyond(problem, limits, number, problem.figure(number, least))


def _beyond(problem: Problem, limits: Sequence[Limit], number: int, figure: float) -> OptionsError:
    limit, each = limits[number], problem.costs[number]
    word = "least" if each.better == "low" else "most"
    others = " and ".join(x.text for i, x in enumerate(limits) if i < number)
    under = f" under {others}" if others else ""
    text = f"The budget {limit.text} cannot be held: the {word} possible{under} is {figure:.6g} {each.unit}".rstrip()
    return OptionsError(f"{text}.", WIDER)


def held(problem: Problem, limits: Sequence[Limit]) -> Held:
    """Solve, look at the true costs, and correct the budgets by how far the shares were off; the best that holds.

    Raises OptionsError where none does.
    """
    wanted = np.array([problem.amount(i, limit.value) for i, limit in enumerate(limits)])
    budgets, scorer, best = wanted.copy(), Scorer(), None
    seen: set[bytes] = set()
    hulls = Hulls(problem) if len(limits) == 1 else None
    for _ in range(ROUNDS):
        found = exact(problem, budgets.tolist(), hulls)
        if found is None or found.picks.tobytes() in seen:
            break
        seen.add(found.picks.tobytes())
        made, true = _true(problem, found, scorer)
        if all(limit.violation(made.figures[limit.figure]) <= HELD for limit in limits):
            best = Held(made, found) if best is None or made.predicted < best.made.predicted else best
            if np.allclose(true, found.amounts, rtol=1e-9):
                break  # the shares are exact, so this is the best
        over = np.maximum(true - wanted, 0)
        budgets = np.minimum(wanted - (true - found.amounts), budgets - over) if over.any() else (
            wanted - (true - found.amounts))  # fmt: skip
    if best is None:
        raise _refusal(problem, limits, scorer)
    return best


def better(problem: Problem, limits: Sequence[Limit], best: Held, tell: Tell, known: Iterable[Falling]) -> Held:
    """`best`, or the point of `known` fronts that is better as a whole and truly holds the limits too."""
    kl, scorer = tell(best.made.chosen), Scorer()
    wanted = [problem.amount(i, limit.value) for i, limit in enumerate(limits)]
    for front in known:
        for found, told in front.within(wanted[front.cost]):
            if told >= kl:
                break
            made, _ = _true(problem, found, scorer)
            if all(limit.violation(made.figures[limit.figure]) <= HELD for limit in limits):
                found = replace(found, bound=best.solution.bound)
                best, kl = Held(replace(made, gap=found.gap), found), told
                break
    return best


def _true(problem: Problem, found: Solution, scorer: Scorer) -> tuple[Allocation, Floats]:
    """A solution with the figures of the graph that comes of it, and their signed amounts."""
    chosen = problem.chosen(found.picks)
    graph = configured(problem.graph, chosen)
    known = figures(graph, scorer.score(graph))
    amounts = np.array([problem.amount(i, known.get(c.name, np.nan)) for i, c in enumerate(problem.costs)])
    return Allocation(chosen, found.kl, known, found.gap), amounts


def _refusal(problem: Problem, limits: Sequence[Limit], scorer: Scorer) -> OptionsError:
    """Why nothing holds: budgets that are possible alone and not together, or a true cost above its shares."""
    wanted = [problem.amount(i, limit.value) for i, limit in enumerate(limits)]
    for number in range(len(limits)):
        found = least_under(problem, wanted[:number], number)
        if found is None:
            continue
        _, true = _true(problem, found, scorer)
        least = max(float(found.amounts[number]), float(true[number]))
        if least > wanted[number]:
            return _beyond(problem, limits, number, problem.figure(number, least))
    words = " and ".join(limit.text for limit in limits)
    return OptionsError(f"No allocation meets {words}.", WIDER)


def points(problem: Problem, solutions: Iterable[Solution], number: int = 0) -> list[Point]:
    """Solutions as points of a front."""
    return [Point(problem.figure(number, float(s.amounts[number])), s.kl, problem.chosen(s.picks)) for s in solutions]


def front(
    graph: Graph, table: Sequence[Sensitivity], figure: str, count: int = 64, competing: Competing | None = None,
    tell: Tell | None = None,
) -> list[Point]:  # fmt: skip
    """At most `count` allocations from the cheapest to that which costs no divergence more, along one cost.

    `tell`: the divergence of a whole, without which the sum decides what is better.
    """
    problem = problem_of(graph, table, [figure], competing)
    found = Hulls(problem).front(count)
    return points(problem, falling(problem, found, tell).solutions if tell else found)
