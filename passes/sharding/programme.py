"""Least time under a memory limit: one choice per vertex, a cost per choice and per pair of choices along edges.

Without a limit, and for bounds with one, vertices are eliminated exactly (dynamic programming); what a limit leaves open
is an integer programme with linearised edges, as in Alpa (OSDI 2022, section 4.2), solved by HiGHS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.passes.solver import quiet

Floats = NDArray[np.float64]
Key = object
TABLE = 20_000_000  # entries of the largest table of an elimination
GAP, SECONDS = 1e-6, 20.0  # relative gap and time limit of HiGHS


@dataclass(slots=True)
class Programme:
    """`times` and `memory`: of each vertex's choices, in seconds and bytes. `edges`: (i, j) → seconds of each pair of
    choices, i < j."""

    times: list[Floats] = field(default_factory=list)  # type: ignore[assignment]
    memory: list[Floats] = field(default_factory=list)  # type: ignore[assignment]
    edges: dict[tuple[int, int], Floats] = field(default_factory=dict)  # type: ignore[assignment]

    def vertex(self, times: Floats, memory: Floats) -> int:
        """Add a vertex; returns its number."""
        self.times.append(times)
        self.memory.append(memory)
        return len(self.times) - 1

    def edge(self, i: int, j: int, costs: Floats) -> None:
        """Add costs of pairs of choices; several edges between two vertices add up."""
        if i == j:
            self.times[i] = self.times[i] + np.diagonal(costs)
            return
        key, costs = ((i, j), costs) if i < j else ((j, i), costs.T)
        self.edges[key] = self.edges[key] + costs if key in self.edges else costs

    def seconds(self, choice: Sequence[int]) -> float:
        """The time of a choice for every vertex."""
        total = sum(float(t[c]) for t, c in zip(self.times, choice, strict=True))
        return total + sum(float(costs[choice[i], choice[j]]) for (i, j), costs in self.edges.items())

    def bytes(self, choice: Sequence[int]) -> float:
        """The memory of a choice for every vertex."""
        return sum(float(m[c]) for m, c in zip(self.memory, choice, strict=True))


@dataclass(frozen=True, slots=True)
class Solution:
    """A choice for every vertex. `bound`: no choice takes less time."""

    choice: tuple[int, ...]
    seconds: float
    bytes: float
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance to the bound."""
        return (self.seconds - self.bound) / self.seconds if self.seconds > 0 else 0.0


def solve(problem: Programme, limit: float = math.inf) -> Solution | None:
    """The choice of least time whose memory is at most `limit`; None if nothing fits."""
    least = sum(float(m.min()) for m in problem.memory)
    if least > limit * (1 + 1e-12):
        return None
    best = _at(problem, 0.0)
    if best is not None and best.bytes <= limit:
        return best
    near = _near(problem, limit)
    if near is not None and near.gap <= GAP:
        return near
    exact = programme(problem, limit)
    if near is None or (exact is not None and exact.seconds <= near.seconds):
        return exact
    return near


def _at(problem: Programme, price: float) -> Solution | None:
    """The least of time + price × memory; None where tables would be too large."""
    choice = eliminate([t + price * m for t, m in zip(problem.times, problem.memory, strict=True)], problem.edges)
    if choice is None:
        return None
    seconds, held = problem.seconds(choice), problem.bytes(choice)
    return Solution(choice, seconds, held, seconds)


def _near(problem: Programme, limit: float, rounds: int = 40) -> Solution | None:
    """The best choice that a price of memory leads to, with the Lagrangian bound."""
    scale = max(1e-30, sum(float(t.max()) for t in problem.times) + sum(float(e.max()) for e in problem.edges.values()))
    low, high, bound = 0.0, None, 0.0
    best: Solution | None = None
    price = scale / max(limit, 1.0)
    for _ in range(rounds):
        found = _at(problem, price)
        if found is None:
            return None
        bound = max(bound, found.seconds + price * (found.bytes - limit))
        if found.bytes <= limit:
            high = price
            if best is None or found.seconds < best.seconds:
                best = found
        else:
            low = price
        if high is not None and best is not None and (high - low <= 1e-9 * high or best.seconds - bound <= GAP * bound):
            break
        price = (low + high) / 2 if high is not None else price * 8
    return None if best is None else Solution(best.choice, best.seconds, best.bytes, min(bound, best.seconds))


# -- elimination


def eliminate(times: Sequence[Floats], edges: dict[tuple[int, int], Floats]) -> tuple[int, ...] | None:
    """The choice of least sum, by eliminating vertices of least degree; None where a table would be too large."""
    tables: dict[tuple[int, ...], Floats] = {(i,): t for i, t in enumerate(times)}
    tables.update(edges)
    of: list[set[tuple[int, ...]]] = [set() for _ in times]
    for scope in tables:
        for i in scope:
            of[i].add(scope)
    left, order = set(range(len(times))), list[tuple[int, tuple[int, ...], NDArray[np.int64]]]()
    while left:
        i = min(left, key=lambda v: (len({x for s in of[v] for x in s}), v))
        scope = tuple(sorted({x for s in of[i] for x in s}))
        if math.prod(len(times[x]) for x in scope) > TABLE:
            return None
        total = np.zeros([len(times[x]) for x in scope])
        for each in of[i]:
            total = total + _spread(tables.pop(each), each, scope, times)
        for each in list(of[i]):
            for x in each:
                of[x].discard(each)
        axis, rest = scope.index(i), tuple(x for x in scope if x != i)
        order.append((i, rest, total.argmin(axis)))
        if rest:
            folded = total.min(axis)
            tables[rest] = tables[rest] + folded if rest in tables else folded
            for x in rest:
                of[x].add(rest)
        left.remove(i)
    chosen: dict[int, int] = {}
    for i, rest, best in reversed(order):
        chosen[i] = int(best[tuple(chosen[x] for x in rest)])
    return tuple(chosen[i] for i in range(len(times)))


def _spread(table: Floats, scope: tuple[int, ...], over: tuple[int, ...], times: Sequence[Floats]) -> Floats:
    """A table as one over more vertices, to be broadcast."""
    return table.reshape([len(times[x]) if x in scope else 1 for x in over])


# -- the integer programme


def programme(problem: Programme, limit: float) -> Solution | None:
    """Solve by HiGHS: binary choices; e[p, q] ≥ 0 of each edge, whose row and column sums are the choices."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    starts = [0, *itertools.accumulate(len(t) for t in problem.times)]
    rows, columns, values, sides = list[int](), list[int](), list[float](), list[float]()
    costs = [np.concatenate(problem.times)]

    def put(row: int, column: int, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    for i in range(len(problem.times)):
        for c in range(starts[i], starts[i + 1]):
            put(len(sides), c, 1.0)
        sides.append(1.0)
    at = starts[-1]
    for (i, j), each in problem.edges.items():
        p, q = each.shape
        row = len(sides)
        for a in range(p):
            for b in range(q):
                put(row + a, at + a * q + b, 1.0)
                put(row + p + b, at + a * q + b, 1.0)
            put(row + a, starts[i] + a, -1.0)
        for b in range(q):
            put(row + p + b, starts[j] + b, -1.0)
        sides.extend([0.0] * (p + q))
        costs.append(each.reshape(-1))
        at += p * q
    goal = np.concatenate(costs)
    scale = max(float(np.abs(goal).max(initial=0.0)), 1e-300)
    equal = csr_array((values, (rows, columns)), shape=(len(sides), at))
    held = np.concatenate([np.concatenate(problem.memory), np.zeros(at - starts[-1])])
    with quiet():
        result = milp(
            goal / scale * 1e3,
            integrality=np.concatenate([np.ones(starts[-1]), np.zeros(at - starts[-1])]),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(equal, sides, sides),  # type: ignore[arg-type]
                LinearConstraint(held[None, :] / max(limit, 1.0), -np.inf, 1.0),
            ],
            options={"mip_rel_gap": GAP, "time_limit": SECONDS},
        )
    if result.x is None:
        return None
    choice = tuple(int(np.argmax(result.x[a:b])) for a, b in itertools.pairwise(starts))
    seconds, held_bytes = problem.seconds(choice), problem.bytes(choice)
    if held_bytes > limit * (1 + 1e-6):
        return None
    return Solution(choice, seconds, held_bytes, min(seconds, float(result.mip_dual_bound or 0.0) * scale / 1e3))
