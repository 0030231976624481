"""Allocation times: BERT-base's layers × 15 formats under one budget and as a front of 64 points; 1 000 layers.

Divergences are made up (lognormal by layer, a quarter for each bit more); the graph and its costs are real. The
Lagrangian's own bound and the true gap to HiGHS stand beside the times, and the processor time beside the clock.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.opening import open_any
from espalier.passes.allocation.convex_hulls import Hulls
from espalier.passes.allocation.exact_solver import exact
from espalier.passes.allocation.problem import Problem
from espalier.passes.allocation.solve import problem_of
from tests.benchmarks.record import report
from tests.passes.allocation.cases import bare_problem, made_table

WIDTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20, 24)
SHARES = (0.1, 0.25, 0.5)  # of the way from the least amount to that from which on nothing gets better
TARGET_ONE, TARGET_FRONT = 5.0, 50.0


def _milliseconds(act: Callable[[], Any], times: int) -> dict[str, float]:
    wall: list[float] = []
    busy: list[float] = []
    for _ in range(times):
        start, used = time.perf_counter(), time.thread_time()
        act()
        wall.append((time.perf_counter() - start) * 1e3)
        busy.append((time.thread_time() - used) * 1e3)
    return {"ms": round(statistics.median(wall), 3), "processor_ms": round(statistics.median(busy), 3)}


def measured(problem: Problem, rounds: int = 31, solver_rounds: int = 3) -> dict[str, Any]:
    """All of one problem."""
    begin = time.perf_counter()
    hulls = Hulls(problem)
    hulls_ms = (time.perf_counter() - begin) * 1e3
    low, high = hulls.ends
    budgets = [low + (high - low) * share for share in SHARES]
    exact(problem, [budgets[0]], hulls)  # imports the solver
    gaps: list[dict[str, float]] = []
    for budget in budgets:
        near, best = hulls.solve(budget), exact(problem, [budget], hulls)
        assert near is not None and best is not None
        gaps.append({"bound": round(near.gap, 5), "true": round(near.kl / best.kl - 1, 5), "left": round(best.gap, 7)})
    middle = budgets[1]
    return {
        "groups": len(problem.groups), "options": int(np.isfinite(problem.kl).sum()), "hulls_ms": round(hulls_ms, 2),
        "one_budget": _milliseconds(lambda: hulls.solve(middle), rounds),
        "front_64": _milliseconds(lambda: hulls.front(64), 7),
        "highs": _milliseconds(lambda: exact(problem, [middle], hulls), solver_rounds), "gaps": gaps,
    }  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    figures: dict[str, Any] = {"target_one_ms": TARGET_ONE, "target_front_ms": TARGET_FRONT}
    with tempfile.TemporaryDirectory() as folder:
        graph = open_any("config:bert?weights=none&task=sequence-classification", Path(folder)).project.graph
        for name, ports in (
            ("weight_bits", ("weight",)),
            ("size_bytes", ("weight",)),
            ("bitops", ("weight", "data_in")),
        ):
            begin = time.perf_counter()
            problem = problem_of(graph, made_table(graph, ports, WIDTHS), [name])
            counted = round((time.perf_counter() - begin) * 1e3, 1)
            figures[f"bert_base_{name}"] = {"count_ms": counted, **measured(problem)}
    dice = np.random.default_rng(0)
    bits = np.array(WIDTHS, np.float64)
    sizes = dice.choice([768 * 768, 768 * 3072, 4096 * 4096], 1000).astype(np.float64)
    kl = (dice.lognormal(0, 2, (1000, 1)) * 1e-3 * 4.0 ** -bits[None]).tolist()
    figures["1000_layers"] = measured(bare_problem(kl, [(sizes[:, None] * bits[None]).tolist()]), solver_rounds=1)
    report("allocation", figures)


if __name__ == "__main__":
    main()
