"""Made-up problems for the tests of allocation: tables with sensible values, and groups without any model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.problem import Group, Problem, undominated
from espalier.passes.costs.base import cost
from espalier.passes.sensitivity.table import Candidate, Sensitivity

WIDTHS = (2, 3, 4, 6, 8)


def fitted(width: int, frac_width: int = 3) -> Format:
    return parse_format(f"integer(width={width}, frac_width={frac_width})")


def made_table(
    graph: Graph, ports: Sequence[str] = ("weight",), widths: Sequence[int] = WIDTHS, sparsities: Sequence[float] = (),
    seed: int = 0,
) -> tuple[Sensitivity, ...]:  # fmt: skip
    """Every Linear under some widths and sparsities, with divergences that fall as bits grow, by layer."""
    dice = np.random.default_rng(seed)
    found: list[Sensitivity] = []
    for i, node in enumerate(n for n in graph if n.op == "linear"):
        for port in ports:
            weight = float(dice.lognormal(0, 2)) * 1e-3
            held = [(Candidate(fitted(w, i % 3 + w // 2)), weight * 4.0**-w) for w in widths]
            if port == "weight":
                held += [(Candidate(None, s), weight * 1e-3 * s**3) for s in sparsities]
            candidates, kl = zip(*held, strict=True)
            found.append(Sensitivity(node.id, port, 1, candidates, kl, kl, (None,) * len(kl)))
    return tuple(found)


def bare_problem(kl: Sequence[Sequence[float]], amounts: Sequence[Sequence[Sequence[float]]]) -> Problem:
    """A knapsack of these divergences and amounts (costs, groups, options), all of them low is good."""
    groups: list[Group] = []
    for g, row in enumerate(kl):
        values, sums = np.array(row, np.float64), np.array([a[g] for a in amounts], np.float64)
        kept = undominated(values, sums)
        groups.append(Group((), kept[None], values[kept], sums[:, kept]))
    of = (cost("weight_bits"),) * len(amounts)
    return Problem(tuple(groups), np.zeros(len(amounts)), of, Graph({}))


def brute(
    kl: Sequence[Sequence[float]], amounts: Sequence[Sequence[Sequence[float]]], budgets: Sequence[float]
) -> float:
    """The least divergence within the budgets by trying everything; infinite where nothing is."""
    best = [(0.0, (0.0,) * len(amounts))]
    for g, row in enumerate(kl):
        best = [(v + k, tuple(s + a[g][o] for s, a in zip(sums, amounts, strict=True)))
                for v, sums in best for o, k in enumerate(row)]  # fmt: skip
    return min((v for v, sums in best if all(s <= b for s, b in zip(sums, budgets, strict=True))), default=math.inf)
