"""A model of each sample's margin over all configurations, which uses more of a trial than its accuracy.

Margin: logit of the true class minus the highest other. A choice shifts margins at random, with a variance that grows
with its divergence; shifts of layers mostly add up. So a Gaussian process predicts margins, and expected improvement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from espalier.passes.allocation.problem import Ints
from espalier.passes.costs.base import Floats

INTERACTIONS = (0.03, 0.1, 0.3, 1.0, 3.0)  # variance of interactions, relative to that of additive effects
POWERS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of the predicted divergence, which is too low for large ones
MIN_KL, MIN_VARIANCE = 1e-9, 1e-12  # relative to the largest divergence
PRIOR = 4.0  # trials' weight of the mean spread of all samples in the spread of one
CERTAIN = 3.5  # standard deviations from 0 beyond which a sample's sign is taken as certain
STEPS, PAIRS = 12, 96  # steps of the local search; random changes of two choices per step
SCORED = 24  # configurations per step that are scored exactly: this many of the steepest slope, and at random


@dataclass(frozen=True, slots=True)
class MeasuredMargins:
    """Margins of trials. `picks`: (trials, choices); `margins`: (trials, samples); `base`: those of the base graph."""

    picks: Ints
    margins: Floats
    base: Floats

    @property
    def accuracies(self) -> Floats:
        """(trials,), shares from 0 to 1."""
        return (self.margins > 0).mean(1)


@dataclass(frozen=True, slots=True)
class Shifts:
    """A Gaussian process over all configurations. `spread`: deviation of each sample; `weights`: (trials, samples)."""

    measured: MeasuredMargins
    kl: Floats
    interaction: float
    spread: Floats
    inverse: Floats
    weights: Floats

    def near(self, picks: Ints) -> tuple[Floats, Floats]:
        """Covariance with each trial, and posterior variance, for a sample of spread 1."""
        shared, size = _shared(self.kl, picks, self.measured.picks, self.interaction)
        return shared, np.maximum(size - ((shared @ self.inverse) * shared).sum(1), MIN_VARIANCE)

    def promising(self, at: Ints, picks: Ints) -> Ints:
        """The SCORED `picks` of the highest mean accuracy, by a linear approximation at `at`."""
        shared, variance = self.near(at[None])
        deviation = np.sqrt(variance[0]) * self.spread
        slope = np.exp(-np.square((self.measured.base + shared[0] @ self.weights) / deviation) / 2) / deviation
        order = np.argsort(-(self.near(picks)[0] @ (self.weights @ slope)), kind="stable")
        return picks[order[:SCORED]]

    def gain(self, picks: Ints, best: float) -> Floats:
        """Expected improvement of the accuracy over `best`, per row of `picks`."""
        shared, variance = self.near(picks)
        deviation = np.sqrt(variance)[:, None] * self.spread
        expected = self.measured.base + shared @ self.weights
        uncertain = (np.abs(expected) < CERTAIN * deviation).any(0)
        right = ndtr(expected[:, uncertain] / deviation[:, uncertain])
        count = expected.shape[1]
        mean = (right.sum(1) + (expected[:, ~uncertain] > 0).sum(1)) / count
        spread = np.sqrt((right * (1 - right)).sum(1)) / count + MIN_VARIANCE
        far = (mean - best) / spread
        return spread * (far * ndtr(far) + np.exp(-np.square(far) / 2) / np.sqrt(2 * np.pi))


def fit_shifts(measured: MeasuredMargins, kl: Floats) -> Shifts:
    """The process of the highest likelihood. `kl`: divergence by choice and value."""
    kl = np.maximum(kl, MIN_KL) / kl.max()
    fits = (_fit(measured, kl**power, share) for power, share in itertools.product(POWERS, INTERACTIONS))
    return max(fits, key=lambda f: f[0])[1]


def _fit(measured: MeasuredMargins, kl: Floats, interaction: float) -> tuple[float, Shifts]:
    shift = measured.margins - measured.base
    kernel = _shared(kl, measured.picks, measured.picks, interaction)[0] + MIN_VARIANCE * np.eye(len(shift))
    inverse = np.asarray(np.linalg.inv(kernel), np.float64)
    weights = inverse @ shift
    each = np.maximum((shift * weights).sum(0), MIN_VARIANCE)
    trials, count = shift.shape
    level = each.sum() / (trials * count)
    spread = np.sqrt((each + PRIOR * level) / (trials + PRIOR))
    likely = -0.5 * count * (float(np.linalg.slogdet(kernel)[1]) + trials * float(np.log(level)))
    return likely, Shifts(measured, kl, interaction, spread, inverse, weights)


def _shared(kl: Floats, picks: Ints, others: Ints, interaction: float) -> tuple[Floats, Floats]:
    """Covariance of each of `picks` with each of `others`, and its variance: additive effects plus interactions."""
    rows = np.arange(kl.shape[0])
    size, theirs = kl[rows, picks], kl[rows, others].sum(1)
    shared = np.stack([(size * (picks == row)).sum(1) for row in others], 1)
    total = size.sum(1)
    return shared + interaction * np.square(shared) / np.sqrt(np.outer(total, theirs)), (1 + interaction) * total


def local_search(
    shifts: Shifts, starts: Iterable[Ints], fits: Callable[[Ints], NDArray[np.bool_]], known: set[tuple[int, ...]],
    sizes: Sequence[int], chance: np.random.Generator,
) -> Ints | None:  # fmt: skip
    """The configuration of the highest expected improvement, by hill climbing from `starts` over one or two choices.

    `fits`: which rows meet the limits; `known`: configurations to leave out; `sizes`: number of values of each choice.
    """
    best = float(shifts.measured.accuracies.max(initial=0.0))
    highest: tuple[float, Ints] | None = None
    for start in starts:
        at, worth = start, -1.0
        for _ in range(STEPS):
            near = _near(at, sizes, chance)
            near = near[fits(near)]
            near = near[[tuple(p) not in known for p in near.tolist()]]
            if not len(near):
                break
            near = np.concatenate([shifts.promising(at, near), near[chance.permutation(len(near))[:SCORED]]])
            gains = shifts.gain(near, best)
            top = int(gains.argmax())
            if gains[top] <= worth:
                break
            at, worth = near[top], float(gains[top])
        if worth >= 0 and (highest is None or worth > highest[0]):
            highest = worth, at
    return None if highest is None else highest[1]


def _near(at: Ints, sizes: Sequence[int], chance: np.random.Generator) -> Ints:
    """All configurations with one choice changed, then PAIRS with two changed at random."""
    ones = [(i, v) for i, size in enumerate(sizes) for v in range(size) if v != at[i]]
    rows = np.repeat(at[None], len(ones) + PAIRS, 0)
    for row, (i, v) in enumerate(ones):
        rows[row, i] = v
    pairs = np.arange(len(ones), len(rows))
    for where in chance.integers(len(sizes), size=(2, PAIRS)):
        rows[pairs, where] = (chance.random(PAIRS) * np.array(sizes)[where]).astype(np.int64)
    return rows
