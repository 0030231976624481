"""What trials tell of each sample: shifts are learned, forecasts come true, and gains are found that accuracy hides."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.passes.search.margins import MeasuredMargins, fit_shifts, local_search

LAYERS, VALUES, SAMPLES = 12, 5, 400
KL = np.repeat(4.0 ** -np.arange(VALUES)[None], LAYERS, 0)
SIZES = [VALUES] * LAYERS


class World:
    """Margins that add up, choice by choice, each as large as its divergence says."""

    def __init__(self, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.base = chance.normal(0.8, 1.0, SAMPLES)
        self.shifts = chance.normal(size=(LAYERS, VALUES, SAMPLES)) * 0.5 * np.sqrt(KL)[:, :, None]

    def margins(self, picks: np.ndarray) -> np.ndarray:
        """Of each sample under one configuration."""
        return self.base + self.shifts[np.arange(LAYERS), picks].sum(0)

    def known(self, picks: np.ndarray) -> MeasuredMargins:
        """What trials of these tell."""
        return MeasuredMargins(picks, np.array([self.margins(p) for p in picks]), self.base)


def some(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(VALUES, size=(count, LAYERS))


def test_what_is_near_to_trials_is_known_and_what_is_far_is_not() -> None:
    world, picks = World(0), some(12, 1)
    shifts = fit_shifts(world.known(picks), KL)
    near = picks[:1].copy()
    near[0, 0] = VALUES - 1
    shared, left = shifts.near(np.concatenate([picks[:1], near, some(1, 2)]))
    assert left[0] < 1e-6 * left[2] and left[0] < left[1] < left[2]
    expected = world.base + shared[1] @ shifts.weights
    assert np.corrcoef(expected - world.base, world.margins(near[0]) - world.base)[0, 1] > 0.8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_proposals_surpass_what_chance_finds(seed: int) -> None:
    """Thirty trials, twenty of them proposed, against the best of a hundred by chance."""
    world, picks = World(seed), some(10, seed)
    chance = np.random.default_rng(seed)
    for _ in range(20):
        known = world.known(picks)
        start = picks[int(known.accuracies.argmax())]
        tried = {tuple(p) for p in picks.tolist()}
        found = local_search(fit_shifts(known, KL), [start], lambda many: many.min(1) >= 0, tried, SIZES, chance)
        assert found is not None and tuple(found.tolist()) not in tried
        picks = np.concatenate([picks, found[None]])
    by_chance = max((world.margins(p) > 0).mean() for p in some(100, seed + 10))
    assert world.known(picks).accuracies.max() > by_chance


def test_limits_hold_and_no_way_is_no_proposal() -> None:
    world, picks = World(0), some(6, 0)
    shifts, chance = fit_shifts(world.known(picks), KL), np.random.default_rng(0)
    found = local_search(shifts, [picks[0]], lambda many: many.sum(1) <= 20, set(), SIZES, chance)
    assert found is not None and found.sum() <= 20
    assert local_search(shifts, [picks[0]], lambda many: many.sum(1) < 0, set(), SIZES, chance) is None
