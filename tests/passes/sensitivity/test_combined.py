"""What choices do together: signed changes add up or cancel; a table keeps them in a byte a pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from espalier.model.formats.base import parse_format
from espalier.passes.sensitivity import measured_candidates
from espalier.passes.sensitivity.combined import (
    MIN_RATIO,
    CombinedDivergences,
    correction_of,
    packed,
    part,
    together,
    unpacked,
)
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.gradient_statistics import PASSES, LowRank, Rows
from espalier.passes.sensitivity.predict import rows_divergence, weight_effect
from espalier.passes.sensitivity.table import Candidate, Sensitivity

INT8, INT4 = Candidate(parse_format("integer(width=8)")), Candidate(parse_format("integer(width=4)"))


def _random(seed: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=PASSES)


def _kl(along: np.ndarray) -> float:
    return 0.5 * float(along @ along)


def test_errors_that_agree_add_up_as_the_square_of_their_sum() -> None:
    a = _random(0)
    assert together([part(_kl(a), a), part(_kl(a), a)]) == pytest.approx(4 * _kl(a))
    assert together([part(_kl(a), a), part(_kl(a), -a)]) == pytest.approx(MIN_RATIO * 2 * _kl(a))
    zero = np.zeros(PASSES)
    assert together([part(_kl(a), a), part(0.3, zero)]) == pytest.approx(_kl(a) + 0.3)
    assert together([part(0.2, a)]) == 0.2, "one alone is what it is"
    assert together([]) == 0 and together([part(math.inf, a), part(0.1, a)]) == math.inf


def test_several_are_corrected_and_one_is_not() -> None:
    by = Correction(level=math.log(2), count=9)
    a, b = _random(1), _random(2)
    pair = [part(_kl(a), a), part(_kl(b), b)]
    assert together(pair, by) == pytest.approx(2 * together(pair))
    assert together(pair[:1], by) == _kl(a)
    assert correction_of({"configuration_correction": [0.5, 0.25]}) == Correction(0.5, 0.25, count=1)
    assert correction_of({}) == Correction() == correction_of({"configuration_correction": "x"})


def test_a_byte_a_pass_is_enough() -> None:
    a = _random(3, 1e-3)
    unit = unpacked(packed(_kl(a), a))
    assert len(packed(_kl(a), a)) < 50
    assert np.sqrt(_kl(a)) * unit == pytest.approx(a, abs=0.01 * float(np.abs(a).max()) + 1e-5)
    assert packed(0.0, a) == "" == packed(math.inf, a) and len(unpacked("")) == 0


def _row(node: str, alongs: list[np.ndarray]) -> Sensitivity:
    kls = tuple(_kl(a) for a in alongs)
    return Sensitivity(node, "weight", 4, (INT8, INT4), kls, (0.1, 0.1), (None, None),
                       tuple(packed(k, a) for k, a in zip(kls, alongs, strict=True)))  # fmt: skip


def test_a_table_tells_configurations() -> None:
    a, b = _random(4), _random(5)
    rows = [_row("one", [a, 2 * a]), _row("two", [b, 2 * b + a])]
    both = {("one", "weight"): INT4, ("two", "weight"): INT4}
    assert CombinedDivergences(rows).of(both) == pytest.approx(_kl(3 * a + 2 * b), rel=0.05)
    assert CombinedDivergences(rows).of({("one", "weight"): INT8, ("three", "weight"): INT8}) == pytest.approx(_kl(a))
    old = [replace(r, along=()) for r in rows]
    assert CombinedDivergences(old).of(both) == pytest.approx(_kl(2 * a) + _kl(2 * b + a)), "tables of before add up"
    true = replace(rows[0], measured=(None, 4 * _kl(2 * a)))
    assert CombinedDivergences([true, rows[1]]).of(both) == pytest.approx(_kl(5 * a + 2 * b), rel=0.05), (
        "what was measured counts"
    )


def test_rows_and_weights_tell_the_same_signs() -> None:
    """x → w·x with one output: an error of x by δ and one of w by the same share of it do the same."""
    random = np.random.default_rng(0)
    x, g = random.normal(size=(PASSES, 3)).astype(np.float32), random.normal(size=PASSES).astype(np.float32)
    w = random.normal(size=(1, 3)).astype(np.float32)
    rows = Rows(x, g[:, None] * w, np.ones(PASSES, np.float32), np.arange(PASSES), x[0], PASSES)
    gradient = g[:, None, None] * x[:, None, :]
    low = LowRank(gradient[:, :, :1] * 0 + 1, gradient.copy(), np.zeros(1, np.float32), np.zeros(3, np.float32))
    one, two = rows_divergence(rows, x * np.float32(0.1)), weight_effect(low, w * np.float32(0.1))
    share = one.along @ two.along / np.sqrt((one.along @ one.along) * (two.along @ two.along))
    assert share == pytest.approx(1, abs=1e-4)
    assert two.kl == pytest.approx(_kl(two.along))
    assert two.kl == pytest.approx(0.5 * np.square(g * 0.1 * (x @ w[0])).mean(), rel=1e-3)


def test_whole_configurations_are_picked_over_the_whole_range() -> None:
    rows = [_row(f"n{i}", [_random(i, 1e-3), _random(i, 0.1)]) for i in range(6)]
    found = measured_candidates.sample_configurations(rows, 8, 0, 2)
    assert len(found) == 8 and all({r for r, _ in cells} == set(range(6)) for cells in found)
    assert {c for _, c in found[0]} == {0} and {c for _, c in found[6]} == {1}, "one format for all, low and high"
    assert (
        measured_candidates.sample_configurations(rows[:1], 8, 0, 2)
        == []
        == measured_candidates.sample_configurations(rows, 8, 0, 0)
    )
