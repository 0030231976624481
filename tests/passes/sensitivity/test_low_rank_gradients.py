"""Errors of whole weights by the few directions that all gradients share, against all directions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.independent_rows import independent_rows
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.sensitivity.full_table import fast_rounded, make_projected_effect
from espalier.passes.sensitivity.gradient_statistics import PASSES, LowRank
from espalier.passes.sensitivity.low_rank_gradients import REMAINDER, project_gradients
from espalier.passes.sensitivity.port_predictor import Part, Replacement
from espalier.passes.sensitivity.predict import Effect, whole_effect

RANK = 2
RANDOM = np.random.default_rng


def _low(outputs: int, inputs: int, across: int, along: int, rest: float = 1e-6) -> LowRank:
    """Gradients within `across` directions of the outputs and `along` of the inputs."""
    random = RANDOM(0)
    left = random.normal(size=(PASSES, RANK, across)) @ random.normal(size=(across, outputs))
    right = random.normal(size=(PASSES, RANK, along)) @ random.normal(size=(along, inputs))
    rows, columns = rest * random.random(outputs), random.random(inputs)
    left, right, rows, columns = (
        np.ascontiguousarray(a, np.float32) for a in (left.transpose(0, 2, 1), right, rows, columns / columns.sum())
    )
    return LowRank(left, right, rows, columns)


def _both(
    piece: LowRank, x: np.ndarray, fmt: Format | None, start: np.ndarray
) -> tuple[tuple[Effect, float], Effect, float]:
    """By the piece itself, and by its few directions."""
    given = Replacement(start, fmt, fast_rounded, start is not x)
    slow = Part(x, piece, np.ones(len(x), np.float32), len(x)).effect(given)
    sums, rest, lost = make_projected_effect(piece)(given, x)
    return slow, whole_effect(sums, rest), lost


@pytest.mark.parametrize(("across", "along", "turned"), [(4, 40, True), (40, 4, False)])
def test_the_side_of_fewer_directions_is_met(across: int, along: int, turned: bool) -> None:
    found = project_gradients(_low(700, 600, across, along))
    assert found.turned == turned and len(found.basis) <= 8
    assert torch.allclose(found.basis @ found.basis.T, torch.eye(len(found.basis)), atol=1e-5)


@pytest.mark.parametrize("fmt", [None, *usual_formats(), parse_format("mxint(width=4, rows=16)"),
                                 parse_format("scaled_integer(width=4, granularity=tensor)"),
                                 parse_format("binary_scaled(granularity=tensor)")], ids=str)  # fmt: skip
@pytest.mark.parametrize("pruned", [False, True], ids=["whole", "pruned"])
def test_few_directions_tell_what_all_do(fmt: Format | None, pruned: bool) -> None:
    x = (RANDOM(1).normal(size=(700, 600)) * 0.05).astype(np.float32)
    start = np.where(np.abs(x) > 0.03, x, np.float32(0)) if pruned else x
    before = x.copy()
    for piece in (_low(700, 600, 4, 40), _low(700, 600, 40, 4)):
        (slow, noise), quick, lost = _both(piece, x, fmt, start)
        assert lost == pytest.approx(noise, rel=1e-4, abs=1e-12)
        assert quick.kl == pytest.approx(slow.kl, rel=1e-3, abs=1e-12)
        assert quick.along == pytest.approx(slow.along, rel=1e-2, abs=1e-3 * slow.kl**0.5 + 1e-12)
    assert np.array_equal(x, before)


def test_what_is_left_out_counts_by_its_squares() -> None:
    """Gradients without any common directions: an error drawn by chance is felt as much as by all of them."""
    piece = _low(300, 200, 64, 64, rest=0.0)
    found = project_gradients(piece)
    assert len(found.basis) < PASSES * RANK
    left = torch.from_numpy(piece.left).transpose(1, 2).reshape(PASSES * RANK, -1)
    right = torch.from_numpy(piece.right).reshape(PASSES * RANK, -1)
    mass = float(left.square().sum(1) @ right.square().sum(1)) / PASSES
    assert 0 < float(found.rows.sum()) <= REMAINDER * mass * 1.001
    x = np.zeros((300, 200), np.float32)
    ratios = list[float]()
    for seed in range(20):
        slow, quick, _ = _both(piece, x, None, RANDOM(seed).normal(size=x.shape).astype(np.float32))
        ratios.append(quick.kl / slow[0].kl)
    assert np.mean(ratios) == pytest.approx(1, abs=0.02)


def test_a_weight_without_gradients_is_felt_by_nobody() -> None:
    x = np.ones((300, 200), np.float32)
    piece = LowRank(np.zeros((PASSES, 300, RANK), np.float32), np.zeros((PASSES, RANK, 200), np.float32),
                np.zeros(300, np.float32), np.zeros(200, np.float32))  # fmt: skip
    _, quick, lost = _both(piece, x, None, np.zeros_like(x))
    assert quick.kl == 0 and not quick.along.any() and lost == 300 * 200


@pytest.mark.parametrize("fmt", [f for f in usual_formats() if independent_rows(f)], ids=str)
def test_rows_that_are_rounded_apart_are_those_of_the_whole(fmt: Format) -> None:
    x = torch.randn(96, 80, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fmt.forward(x), torch.cat([fmt.forward(c) for c in x.split(16 * independent_rows(fmt))]))


def test_what_hangs_on_all_rows_is_rounded_at_once() -> None:
    names = ("nvfp4", "scaled_integer(width=4, granularity=tensor)", "binary(stochastic=true)")
    assert [independent_rows(parse_format(n)) for n in names] == [0, 0, 0]
    assert independent_rows(parse_format("mxint(width=4, rows=16)")) == 16
