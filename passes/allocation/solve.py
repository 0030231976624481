"""Solves an allocation under budgets: exactly by shares, then with budgets corrected until the true costs hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.convex_hulls import Hulls, Solution
from espalier.passes.allocation.decisions import Column, PortRef, Slot, slots
from espalier.passes.allocation.exact_solver import exact, least_under
from espalier.passes.allocation.plan import Allocation, configured
from espalier.passes.allocation.predicted_fronts import Falling, Tell, falling, fronts
from espalier.passes.allocation.problem import Problem, counted
from espalier.passes.costs.base import Cost, Floats, cost, figures
from espalier.passes.costs.limits import Limit
from espalier.passes.score import Scorer
from espalier.passes.sensitivity.table import Candidate, Sensitivity

ROUNDS = 12
TOLERANCE = 1e-9  # relative, of a limit, for rounding errors of sums
WIDER = "Raise it, or allow cheaper formats or more pruning."


@dataclass(frozen=True, slots=True)
class Competing:
    """What is chosen from: columns (None: all of the table), float, ports, tied nodes."""

    columns: tuple[Column, ...] | None = None
    whole: bool = True
    tied: tuple[tuple[str, ...], ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a front: the cost by its shares, the sum of the divergences, and the choices."""

    figure: float
    predicted: float
    chosen: dict[PortRef, Candidate]


@dataclass(frozen=True, slots=True)
class Held:
    """An allocation whose true costs hold the limits, and its knapsack solution."""

    made: Allocation
    solution: Solution


def problem_of(
    graph: Graph, table: Sequence[Sensitivity], costs: Iterable[str], competing: Competing | None = None
) -> Problem:
    """The knapsack of a table with costs, without slots that affect no cost; raises OptionsError."""
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
    """Whether a cost depends on a slot."""
    shares = each.shares
    assert shares is not None
    computed = shares.node is not None and any(p in shares.ports for _, p in slot.places)
    return computed or (shares.weight is not None and bool(slot.weights))


def allocate(
    graph: Graph, table: Sequence[Sensitivity], limits: Sequence[Limit], competing: Competing | None = None,
    tell: Tell | None = None,
) -> Allocation:  # fmt: skip
    """The allocation of least predicted divergence whose true costs hold the limits.

    `tell`: predicted divergence of a configuration; a front's point with a lower one replaces the solution with the
    least sum. Raises OptionsError with the possible minimum if there is none.
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

        def whole(chosen: Mapping[PortRef, Candidate]) -> float:
            """The divergence of these choices together with the unlimited ones."""
            return tell({**chosen, **free})

        best = better(problem, limits, best, whole, fronts(problem, whole))
    made = best.made
    return replace(made, chosen={**made.chosen, **free}, predicted=made.predicted + predicted)


def unlimited(
    graph: Graph, table: Sequence[Sensitivity], costs: Iterable[str], who: Competing
) -> tuple[dict[PortRef, Candidate], float]:
    """(choices, divergence) of selected ports that affect no cost, such as biases, if float is not allowed: the format
    of least divergence.
    """
    if who.whole or not who.ports:
        return {}, 0.0
    wanted = [cost(name) for name in dict.fromkeys(costs)]
    chosen, predicted = dict[PortRef, Candidate](), 0.0
    for slot in slots(table, graph, who.columns, whole=False, tied=who.tied, ports=who.ports):
        if any(_looks_at(c, slot) for c in wanted):
            continue
        best = min(range(len(slot.kl)), key=slot.kl.__getitem__)
        chosen |= {port: candidates[best] for port, candidates in zip(slot.places, slot.choices, strict=True)}
        predicted += slot.kl[best]
    return chosen, predicted


def settled(graph: Graph, limits: Sequence[Limit]) -> tuple[Graph, tuple[Step, ...], list[Limit]]:
    """Settle limits that each node can hold regardless of formats: (graph, its steps, other limits).

    Raises OptionsError if that is impossible, or if no other limit remains.
    """
    steps: list[Step] = []
    for limit in limits:
        if settle := cost(limit.figure).settle:
            graph, step = settle(graph, limit.value)
            steps.append(step)
    rest = [x for x in limits if cost(x.figure).settle is None]
    if limits and not rest:
        raise OptionsError(
            f"{limits[0].text} does not depend on formats.", "Add a budget that does, such as lut<=20000."
        )
    return graph, tuple(steps), rest


def check_possible(problem: Problem, limits: Sequence[Limit]) -> None:
    """Raise OptionsError for a limit below the possible minimum."""
    for number, limit in enumerate(limits):
        amount, least = problem.amount(number, limit.value), float(problem.least[number])
        if least > amount + TOLERANCE * max(abs(amount), abs(least)):
            raise _beyond(problem, limits, number, problem.figure(number, least))


def _beyond(problem: Problem, limits: Sequence[Limit], number: int, figure: float) -> OptionsError:
    limit, each = limits[number], problem.costs[number]
    word = "least" if each.better == "low" else "most"
    others = " and ".join(x.text for i, x in enumerate(limits) if i < number)
    under = f" under {others}" if others else ""
    text = f"The budget {limit.text} cannot be held: the {word} possible{under} is {figure:.6g} {each.unit}".rstrip()
    return OptionsError(f"{text}.", WIDER)


def held(problem: Problem, limits: Sequence[Limit]) -> Held:
    """Solve, compute the true costs, and correct the budgets by the error of the shares; returns the best that holds.

    Raises OptionsError if none does.
    """
    wanted = np.array([problem.amount(i, limit.value) for i, limit in enumerate(limits)])
    budgets, scorer, best = wanted.copy(), Scorer(), None
    seen: set[bytes] = set()
    hulls = Hulls(problem) if len(limits) == 1 else None
    for _ in range(ROUNDS):
        solved = exact(problem, budgets.tolist(), hulls)
        if solved is None or solved.picks.tobytes() in seen:
            break
        seen.add(solved.picks.tobytes())
        made, true = _true(problem, solved, scorer)
        if all(limit.violation(made.figures[limit.figure]) <= TOLERANCE for limit in limits):
            best = Held(made, solved) if best is None or made.predicted < best.made.predicted else best
            if np.allclose(true, solved.amounts, rtol=1e-9):
                break  # the shares are exact, so this is optimal
        over = np.maximum(true - wanted, 0)
        budgets = np.minimum(wanted - (true - solved.amounts), budgets - over) if over.any() else (
            wanted - (true - solved.amounts))  # fmt: skip
    if best is None:
        raise _refusal(problem, limits, scorer)
    return best


def better(problem: Problem, limits: Sequence[Limit], best: Held, tell: Tell, known: Iterable[Falling]) -> Held:
    """`best`, or a point of `known` fronts with a lower divergence as a configuration whose true costs hold the
    limits."""
    kl, scorer = tell(best.made.chosen), Scorer()
    wanted = [problem.amount(i, limit.value) for i, limit in enumerate(limits)]
    for front in known:
        for point, divergence in front.within(wanted[front.cost]):
            if divergence >= kl:
                break
            made, _ = _true(problem, point, scorer)
            if all(limit.violation(made.figures[limit.figure]) <= TOLERANCE for limit in limits):
                bounded = replace(point, bound=best.solution.bound)
                best, kl = Held(replace(made, gap=bounded.gap), bounded), divergence
                break
    return best


def _true(problem: Problem, solved: Solution, scorer: Scorer) -> tuple[Allocation, Floats]:
    """(allocation of a solution with the costs of its graph, their signed amounts)."""
    chosen = problem.chosen(solved.picks)
    graph = configured(problem.graph, chosen)
    costs = figures(graph, scorer.score(graph))
    amounts = np.array([problem.amount(i, costs.get(c.name, np.nan)) for i, c in enumerate(problem.costs)])
    return Allocation(chosen, solved.kl, costs, solved.gap), amounts


def _refusal(problem: Problem, limits: Sequence[Limit], scorer: Scorer) -> OptionsError:
    """The error if nothing holds: budgets possible alone but not together, or a true cost above its shares."""
    wanted = [problem.amount(i, limit.value) for i, limit in enumerate(limits)]
    for number in range(len(limits)):
        cheapest = least_under(problem, wanted[:number], number)
        if cheapest is None:
            continue
        _, true = _true(problem, cheapest, scorer)
        least = max(float(cheapest.amounts[number]), float(true[number]))
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
    """At most `count` Pareto allocations along one cost.

    `tell`: predicted divergence of a configuration; by default the sum of divergences.
    """
    problem = problem_of(graph, table, [figure], competing)
    solutions = Hulls(problem).front(count)
    return points(problem, falling(problem, solutions, tell).solutions if tell else solutions)
