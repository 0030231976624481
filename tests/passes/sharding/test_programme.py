"""The solver against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from espalier.passes.sharding.programme import Programme, programme, solve


def drawn(seed: int, vertices: int = 5, possible: float = 0.9) -> Programme:
    """A random problem; some pairs of choices are not possible."""
    rng = np.random.default_rng(seed)
    found = Programme()
    for _ in range(vertices):
        count = int(rng.integers(2, 5))
        found.vertex(rng.random(count), np.where(rng.random(count) < 0.3, 0.0, rng.random(count) * 10))
    for i, j in itertools.combinations(range(vertices), 2):
        if rng.random() < 0.7:
            costs = rng.random((len(found.times[i]), len(found.times[j])))
            found.edge(i, j, np.where(rng.random(costs.shape) < possible, costs, np.inf))
    return found


def enumerated(problem: Programme, limit: float) -> float:
    """The least time of all choices within the limit."""
    best = math.inf
    for choice in itertools.product(*(range(len(t)) for t in problem.times)):
        if problem.bytes(choice) <= limit:
            best = min(best, problem.seconds(choice))
    return best


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.0, 0.15, 0.5, 1.0])
def test_least_time_within_memory(seed: int, share: float) -> None:
    """From the least memory possible to no limit at all."""
    problem = drawn(seed)
    least, most = sum(m.min() for m in problem.memory), sum(m.max() for m in problem.memory)
    limit = least + share * (most - least)
    expected, found = enumerated(problem, limit), solve(problem, limit)
    if math.isinf(expected):
        assert found is None or math.isinf(found.seconds)
    else:
        assert found is not None
        assert found.seconds == pytest.approx(expected, rel=1e-6)
        assert found.bytes <= limit * (1 + 1e-6)
        assert found.bound <= expected * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_highs_alone(seed: int) -> None:
    """The integer programme by itself, where prices of memory would have done."""
    problem = drawn(seed, possible=1.0)
    limit = sum(m.min() for m in problem.memory) * 1.5 + 1
    found = programme(problem, limit)
    assert found is not None
    assert found.seconds == pytest.approx(enumerated(problem, limit), rel=1e-6)


def test_nothing_fits() -> None:
    """Less memory than the least choice."""
    assert solve(drawn(3), -1.0) is None


def test_of_equal_times_the_smaller_wins() -> None:
    """Memory decides between plans as quick."""
    problem = Programme()
    problem.vertex(np.array([1.0, 1.0, 2.0]), np.array([5.0, 3.0, 0.0]))
    found = solve(problem, 10)
    assert found is not None
    assert found.choice == (1,)
