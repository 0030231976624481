"""Least time under a memory limit: one choice per vertex, a cost per choice and per pair of choices along edges.

Without a limit, vertices are eliminated exactly (dynamic programming). What a limit leaves open is an integer programme
with linearised edges, as in Alpa (OSDI 2022, section 4.2), solved by HiGHS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from espalier.passes.solver import quiet

Floats = NDArray[np.float64]
Key = object
TABLE = 20_000_000  # entries of the largest table of an elimination
GAP, SECONDS = 1e-6, 20.0  # relative gap and time limit of HiGHS
TIE = 1e-9  # relative price of all memory, so that of plans as quick the smaller is chosen


@dataclass(slots=True)
class Programme:
    """`times` and `memory`: of each vertex's choices, in seconds and bytes. `edges`: (i, j) → seconds of each pair of
    choices, i < j; infinite for a pair that is not possible."""

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
    most = sum(float(m.max()) for m in problem.memory)
    best = _at(problem, TIE * _scale(problem) / max(most, 1.0))
    if best is not None and math.isinf(best.seconds):
        return None
    if best is not None and best.bytes <= limit:
        return best
    tables, kept, core = _core(problem)
    fixed = sum(float(m[0]) for i, m in enumerate(problem.memory) if i not in set(kept))
    found = _limited(core, limit - fixed)
    if found is None:
        return None
    choice = tables.unfolded(dict(zip(kept, found.choice, strict=True)))
    seconds = problem.seconds(choice)
    return Solution(choice, seconds, problem.bytes(choice), min(seconds, found.bound))


def _limited(problem: Programme, limit: float) -> Solution | None:
    """The same where the limit matters: by a price of memory if that is exact, else by HiGHS among the choices that can
    be better."""
    near, price = _near(problem, limit)
    if near is None:
        return programme(problem, limit)
    if near.gap <= GAP:
        return near
    kept = _promising(problem, price, limit, near)
    part = restricted(problem, kept)
    exact = programme(part, limit)
    if exact is None:
        return near
    choice = tuple(int(k[c]) for k, c in zip(kept, exact.choice, strict=True))
    bound = min(exact.bound, near.seconds)
    return replace(exact, choice=choice, bound=bound) if exact.seconds <= near.seconds else replace(near, bound=bound)


def restricted(problem: Programme, kept: Sequence[NDArray[np.int64]]) -> Programme:
    """The problem with only these choices of each vertex."""
    return Programme([t[k] for t, k in zip(problem.times, kept, strict=True)],
                     [m[k] for m, k in zip(problem.memory, kept, strict=True)],
                     {(i, j): e[np.ix_(kept[i], kept[j])] for (i, j), e in problem.edges.items()})  # fmt: skip


def _promising(problem: Programme, price: float, limit: float, near: Solution) -> list[NDArray[np.int64]]:
    """The choices of each vertex whose Lagrangian bound is not above a solution; those of the solution among them."""
    priced = [t + price * m for t, m in zip(problem.times, problem.memory, strict=True)]
    found: list[NDArray[np.int64]] = []
    for vertex, picked in enumerate(near.choice):
        tables = Tables(priced, problem.edges)
        others = tables.left - {vertex}
        while others and tables.fold(min(others, key=lambda v: (tables.entries(v), v))):
            others = tables.left - {vertex}
        least = tables.tables.get((vertex,), priced[vertex])
        kept = np.isfinite(least) if others else least - price * limit <= near.seconds * (1 + 1e-9)
        kept[picked] = True
        found.append(np.flatnonzero(kept))
    return found


def _at(problem: Programme, price: float) -> Solution | None:
    """The least of time + price × memory; None where tables would be too large."""
    choice = eliminate([t + price * m for t, m in zip(problem.times, problem.memory, strict=True)], problem.edges)
    if choice is None:
        return None
    seconds, held = problem.seconds(choice), problem.bytes(choice)
    return Solution(choice, seconds, held, seconds)


def _scale(problem: Programme) -> float:
    """A time that matters: of the quickest choice of each vertex by itself."""
    total = sum(float(t.min()) for t in problem.times)
    return total or sum(float(e[np.isfinite(e)].max(initial=0.0)) for e in problem.edges.values()) or 1e-30


def _near(problem: Programme, limit: float, rounds: int = 30) -> tuple[Solution | None, float]:
    """The best choice that a price of memory leads to, with the Lagrangian bound, and the price of that bound."""
    low, high, bound, dearest = 0.0, None, 0.0, 0.0
    best: Solution | None = None
    price = _scale(problem) / max(limit, 1.0)
    for _ in range(rounds):
        found = _at(problem, price)
        if found is None:
            return None, 0.0
        lower = found.seconds + price * (found.bytes - limit)
        if lower > bound:
            bound, dearest = lower, price
        if found.bytes <= limit:
            high = price
            if best is None or found.seconds < best.seconds:
                best = found
        else:
            low = price
        if high is not None and best is not None and (high - low <= 1e-6 * high or best.seconds - bound <= GAP * bound):
            break
        price = (low + high) / 2 if high is not None else price * 8
    return best and replace(best, bound=min(bound, best.seconds)), dearest


# -- elimination


Scope = tuple[int, ...]
Folded = tuple[int, Scope, NDArray[np.int64]]  # a vertex, its neighbours, its best choice for each of theirs


class Tables:
    """Costs as tables over vertices, of which vertices are eliminated one by one."""

    def __init__(self, times: Sequence[Floats], edges: dict[tuple[int, int], Floats]) -> None:
        self.sizes = [len(t) for t in times]
        self.tables: dict[Scope, Floats] = {(i,): t for i, t in enumerate(times)}
        self.tables |= dict[Scope, Floats](edges.items())
        self.of: list[set[Scope]] = [set() for _ in times]
        for scope in self.tables:
            for i in scope:
                self.of[i].add(scope)
        self.left, self.folded = set(range(len(times))), list[Folded]()

    def around(self, i: int) -> Scope:
        """A vertex and its neighbours, in order."""
        return tuple(sorted({x for s in self.of[i] for x in s}))

    def entries(self, i: int) -> int:
        """Entries of the table that eliminating a vertex needs."""
        return math.prod(self.sizes[x] for x in self.around(i))

    def fold(self, i: int) -> bool:
        """Eliminate a vertex; False where the table would be too large."""
        scope = self.around(i)
        if self.entries(i) > TABLE:
            return False
        total = np.zeros([self.sizes[x] for x in scope])
        for each in list(self.of[i]):
            shape = [self.sizes[x] if x in each else 1 for x in scope]
            total = total + self.tables.pop(each).reshape(shape)
            for x in each:
                self.of[x].discard(each)
        axis, rest = scope.index(i), tuple(x for x in scope if x != i)
        self.folded.append((i, rest, total.argmin(axis)))
        if rest:
            low = total.min(axis)
            self.tables[rest] = self.tables[rest] + low if rest in self.tables else low
            for x in rest:
                self.of[x].add(rest)
        self.left.remove(i)
        return True

    def unfolded(self, chosen: dict[int, int]) -> tuple[int, ...]:
        """The choices of all vertices, given those of the vertices that are left."""
        for i, rest, best in reversed(self.folded):
            chosen[i] = int(best[tuple(chosen[x] for x in rest)])
        return tuple(chosen[i] for i in range(len(self.sizes)))


def eliminate(times: Sequence[Floats], edges: dict[tuple[int, int], Floats]) -> tuple[int, ...] | None:
    """The choice of least sum, by eliminating vertices of least degree; None where a table would be too large."""
    tables = Tables(times, edges)
    while tables.left:
        if not tables.fold(min(tables.left, key=lambda v: (tables.entries(v), v))):
            return None
    return tables.unfolded({})


def _core(problem: Programme) -> tuple[Tables, list[int], Programme]:
    """The problem without vertices that have at most two neighbours and take the same memory whatever is chosen."""
    tables, same = Tables(problem.times, problem.edges), [float(np.ptp(m)) == 0.0 for m in problem.memory]
    while ready := [v for v in tables.left if same[v] and len(tables.around(v)) <= 3]:
        if len(tables.left) == 1 or not tables.fold(min(ready, key=lambda v: (len(tables.around(v)), v))):
            break
    kept = sorted(tables.left)
    at = {v: i for i, v in enumerate(kept)}
    core = Programme([tables.tables.get((v,), np.zeros(tables.sizes[v])) for v in kept],
                     [problem.memory[v] for v in kept])  # fmt: skip
    for scope, costs in tables.tables.items():
        if len(scope) == 2:
            core.edge(at[scope[0]], at[scope[1]], costs)
    return tables, kept, core


# -- the integer programme


def programme(problem: Programme, limit: float) -> Solution | None:
    """The choice of least time within a limit, by HiGHS."""
    solved = _milp(problem, limit)
    if solved is None:
        return None
    seconds, held = problem.seconds(solved[0]), problem.bytes(solved[0])
    return Solution(solved[0], seconds, held, min(seconds, solved[1])) if held <= limit * (1 + 1e-6) else None


def _milp(problem: Programme, limit: float) -> tuple[tuple[int, ...], float] | None:
    """(choice, lower bound) by HiGHS: binary choices; e[p, q] ≥ 0 of each edge, whose row and column sums are the
    choices. None if nothing is found."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    starts = [0, *itertools.accumulate(len(t) for t in problem.times)]
    entries, sides = list[tuple[int, int, float]](), list[float]()
    costs = [np.concatenate(problem.times)]
    for i in range(len(problem.times)):
        entries += [(len(sides), c, 1.0) for c in range(starts[i], starts[i + 1])]
        sides.append(1.0)
    at = starts[-1]
    for (i, j), each in problem.edges.items():
        p, q, row = *each.shape, len(sides)
        entries += [(row + a, at + a * q + b, 1.0) for a in range(p) for b in range(q)]
        entries += [(row + p + b, at + a * q + b, 1.0) for a in range(p) for b in range(q)]
        entries += [(row + a, starts[i] + a, -1.0) for a in range(p)]
        entries += [(row + p + b, starts[j] + b, -1.0) for b in range(q)]
        sides.extend([0.0] * (p + q))
        costs.append(each.reshape(-1))
        at += p * q
    goal = np.concatenate(costs)
    possible = np.isfinite(goal)
    goal = np.where(possible, goal, 0.0)
    scale = max(float(np.abs(goal).max(initial=0.0)), 1e-300)
    rows, columns, values = zip(*entries, strict=True)
    equal = csr_array((values, (rows, columns)), shape=(len(sides), at))
    held = np.concatenate([np.concatenate(problem.memory), np.zeros(at - starts[-1])])
    with quiet():
        result = milp(
            goal / scale * 1e3,
            integrality=np.concatenate([np.ones(starts[-1]), np.zeros(at - starts[-1])]),
            bounds=Bounds(0, possible.astype(np.float64)),  # type: ignore[arg-type]
            constraints=[
                LinearConstraint(equal, sides, sides),  # type: ignore[arg-type]
                LinearConstraint(held[None, :] / max(limit, 1.0), -np.inf, 1.0),
            ],
            options={"mip_rel_gap": GAP, "time_limit": SECONDS},
        )
    if result.x is None:
        return None
    choice = tuple(int(np.argmax(result.x[a:b])) for a, b in itertools.pairwise(starts))
    return choice, float(result.mip_dual_bound or 0.0) * scale / 1e3
