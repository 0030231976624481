"""Masks are those of a plain reference: element, row, n:m and blocks, on weights that lie any way round."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from espalier.model.errors import OptionsError
from espalier.model.graph.views import View
from espalier.model.torch.layers import unpack_mask
from espalier.passes.choices.pruning import Choice
from espalier.passes.pruning.patterns import Found, Scored, mask, masks

SHAPES: list[tuple[tuple[int, ...], View | None]] = [
    ((6, 8), None),  # Linear
    ((8, 6), View((1, 0))),  # Conv1D of GPT-2
    ((4, 3, 3, 2), View((0, 1, 2, 3), flat=True)),  # a convolution
    ((3, 4, 2, 2), View((1, 0, 2, 3), flat=True)),  # a transposed one
    ((6, 2, 2, 2), View((1, 0, 2, 3), flat=True, groups=3)),  # one in groups
    ((5, 7), None),
    ((1, 1), None),
]


def scored(shape: tuple[int, ...], view: View | None, seed: int = 0, ties: bool = True) -> Scored:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    values = (values * 2).round() / 2 if ties else values
    return Scored(values.numpy().reshape(-1), shape, view)


def kept(found: Found, shape: tuple[int, ...]) -> Tensor:
    keep = unpack_mask(torch.from_numpy(found.bits), shape)
    assert int((~keep).sum()) == found.zeros
    return keep


def rows_of(x: Tensor, view: View | None) -> Tensor:
    return x if view is None else view.of(x)


def drop_least(scores: list[float], count: int) -> list[bool]:
    """True = kept: the first `count` of a stable sort go."""
    order = sorted(range(len(scores)), key=lambda i: scores[i])[:count]
    return [i not in order for i in range(len(scores))]


def reference(part: Scored, choice: Choice) -> Tensor:
    """The rows' mask, element by element in Python."""
    rows = rows_of(torch.from_numpy(part.values).reshape(part.shape), part.view).tolist()
    score = (lambda v: v) if choice.signed else abs
    if choice.pattern == "n:m":
        n, m = choice.size
        groups = [[row[i : i + m] for i in range(0, len(row), m)] for row in rows]
        return torch.tensor([
            list(itertools.chain(*(drop_least([score(v) for v in g], max(len(g) - n, 0)) for g in row)))
            for row in groups
        ])  # fmt: skip
    if choice.pattern == "block":
        return block_reference(rows, choice)
    return torch.tensor([drop_least([score(v) for v in row], round(choice.ratio * len(row))) for row in rows])


def block_reference(rows: list[list[float]], choice: Choice) -> Tensor:
    high, wide = choice.size
    down, across = range(0, len(rows), high), range(0, len(rows[0]), wide)
    power = 2 if choice.method in ("l2", "hessian") else 1

    def mean(i: int, j: int) -> float:
        values = [v for row in rows[i : i + high] for v in row[j : j + wide]]
        parts = values if choice.signed else [abs(v) ** power for v in values]
        return float(np.float32(sum(parts) / len(parts)))

    means = [mean(i, j) for i in down for j in across]
    if choice.scope == "row":
        each = len(across)
        lines = [means[k : k + each] for k in range(0, len(means), each)]
        keep = list(itertools.chain(*(drop_least(line, round(choice.ratio * each)) for line in lines)))
    else:
        keep = drop_least(means, round(choice.ratio * len(means)))
    found = torch.ones(len(rows), len(rows[0]), dtype=torch.bool)
    for k, (i, j) in enumerate(itertools.product(down, across)):
        found[i : i + high, j : j + wide] = keep[k]
    return found


CHOICES = [
    *(Choice(r, "l1", "row") for r in (0.0, 0.3, 0.5, 1.0)),
    Choice(0.4, "movement", "row"),
    *(Choice(0.5, "l1", "local", "n:m", size) for size in ((2, 4), (1, 4), (4, 4), (1, 2), (3, 7), (2, 20), (1, 1))),
    Choice(0.5, "movement", "local", "n:m", (2, 4)),
    *(Choice(r, m, s, "block", size) for r in (0.0, 0.34, 1.0) for m in ("l1", "l2", "movement", "hessian")
      for s in ("local", "row") for size in ((2, 2), (1, 3), (4, 5), (9, 9))),
]  # fmt: skip


@pytest.mark.parametrize("shape, view", SHAPES)
def test_masks_are_those_of_the_reference(shape: tuple[int, ...], view: View | None) -> None:
    for seed, choice in itertools.product(range(2), CHOICES):
        part = scored(shape, view, seed)
        assert torch.equal(rows_of(kept(mask(part, choice), shape), view), reference(part, choice)), choice


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 20), st.data())
def test_any_group_of_any_weight(rows: int, columns: int, m: int, data: Any) -> None:
    n = data.draw(st.integers(1, m))
    part = scored((rows, columns), None, data.draw(st.integers(0, 99)))
    choice = Choice(0.5, pattern="n:m", size=(n, m))
    assert torch.equal(kept(mask(part, choice), part.shape), reference(part, choice))


def test_large_weights_go_in_pieces() -> None:
    part = scored((700, 1003), None, ties=False)
    keep = kept(mask(part, Choice(0.5, pattern="n:m", size=(2, 4))), part.shape)
    groups = keep[:, :1000].reshape(-1, 4).sum(1)
    assert bool((groups == 2).all()) and bool((keep[:, 1000:].sum(1) == 2).all())
    rows = kept(mask(part, Choice(0.3, scope="row")), part.shape)
    assert bool(((~rows).sum(1) == round(0.3 * 1003)).all())
    limits = torch.from_numpy(part.values).reshape(part.shape).abs().kthvalue(round(0.3 * 1003), dim=1).values
    assert torch.equal(rows, torch.from_numpy(part.values).reshape(part.shape).abs() > limits[:, None])


# -- all together


def test_global_blocks_are_ranked_over_all_weights() -> None:
    parts = [Scored(np.full(16, v, np.float32), (4, 4)) for v in (1.0, 9.0)]
    found = masks(parts, Choice(0.5, scope="global", pattern="block", size=(2, 2)))
    assert [f.zeros for f in found] == [16, 0]
    found = masks(parts, Choice(0.625, scope="global", pattern="block", size=(2, 2)))
    assert [f.zeros for f in found] == [16, 4]
    assert not kept(found[1], (4, 4))[:2, :2].any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_bounds_hold_and_the_count_is_exact(sizes: list[int], low: float, ratio: float, high: float) -> None:
    low, ratio, high = sorted((low, ratio, high))
    random = np.random.default_rng(len(sizes))
    parts = [Scored((random.standard_normal(n) * 10**i).astype(np.float32), (n,)) for i, n in enumerate(sizes)]
    found = masks(parts, Choice(ratio, scope="global", least=low, most=high))
    assert sum(f.zeros for f in found) == round(ratio * sum(sizes))
    if ratio:
        assert all(int(low * n) <= f.zeros <= -(-high * n // 1) + 1e-9 for n, f in zip(sizes, found, strict=True))


def test_within_bounds_the_ranking_is_common() -> None:
    parts = [Scored(np.arange(1, 11, dtype=np.float32) * scale, (10,)) for scale in (1.0, 2.0, 100.0)]
    free = [f.zeros for f in masks(parts, Choice(0.5, scope="global"))]
    assert free == [10, 5, 0]
    bound = [f.zeros for f in masks(parts, Choice(0.5, scope="global", least=0.2, most=0.8))]
    assert bound == [8, 5, 2]


# -- what cannot be


@pytest.mark.parametrize(
    "values, words",
    [
        ({"ratio": 1.2}, "sparsity is 1.2"),
        ({"ratio": float("nan")}, "sparsity is nan"),
        ({"ratio": 0.5, "pattern": "n:m", "size": (5, 4)}, "n is 5 and m is 4"),
        ({"ratio": 0.5, "pattern": "block", "size": (0, 4)}, "0 by 4"),
        ({"ratio": 0.5, "pattern": "block", "size": (4, 10**6)}, "1000000"),
        ({"ratio": 0.5, "least": 0.7, "most": 0.3}, "least is 0.7"),
        ({"ratio": 0.5, "scope": "global", "most": 0.3}, "most 0.3"),
    ],
)
def test_impossible_choices_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionsError, match=words) as caught:
        Choice(**values)
    assert caught.value.hint
