"""What choices do to each sample: a trial tells as many numbers as there are samples, where its accuracy tells one.

A sample's margin is by how much its class is ahead. A choice shifts margins by chance, the more the more it diverges;
shifts of layers add up, but for a part. So margins of what was not tried are known in part, and what may be gained.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from espalier.passes.allocation.problem import Whole
from espalier.passes.costs.base import Floats

ALONE = (0.03, 0.1, 0.3, 1.0, 3.0)  # variance of what choices do only together, beside what adds up
POWERS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of the predicted divergence, which is too low at its steep end
LEAST, FLAT = 1e-9, 1e-12  # divergence that counts; variance that there always is
PRIOR = 4.0  # trials that the spread of all samples weighs in that of one
SURE = 3.5  # deviations beyond which a sample stays on its side
STEPS, PAIRS = 12, 96  # steps of a climb; random changes of two choices that a step looks at
LOOKED_AT = 24  # of a step's configurations: so many that promise most at a glance, and so many by chance


@dataclass(frozen=True, slots=True)
class Known:
    """Trials with each sample's margin, beside the margins where nothing is changed (`base`)."""

    picks: Whole
    margins: Floats
    base: Floats

    @property
    def accuracies(self) -> Floats:
        """Of the trials."""
        return (self.margins > 0).mean(1)


@dataclass(frozen=True, slots=True)
class Shifts:
    """A process over all configurations, told by what is known. `spread`: of each sample; `weights`: trial × sample."""

    known: Known
    kl: Floats
    alone: float
    spread: Floats
    inverse: Floats
    weights: Floats

    def near(self, picks: Whole) -> tuple[Floats, Floats]:
        """What each of these shares with each trial, and the variance that is left, of a sample of spread 1."""
        shared, size = _shared(self.kl, picks, self.known.picks, self.alone)
        return shared, np.maximum(size - ((shared @ self.inverse) * shared).sum(1), FLAT)

    def promising(self, at: Whole, picks: Whole) -> Whole:
        """Those of which the mean accuracy is highest, by its slope at one of them: no sample is looked at again."""
        shared, left = self.near(at[None])
        deviation = np.sqrt(left[0]) * self.spread
        slope = np.exp(-np.square((self.known.base + shared[0] @ self.weights) / deviation) / 2) / deviation
        order = np.argsort(-(self.near(picks)[0] @ (self.weights @ slope)), kind="stable")
        return picks[order[:LOOKED_AT]]

    def gain(self, picks: Whole, best: float) -> Floats:
        """By how much each of these may surpass the best: the expected improvement of the accuracy."""
        shared, left = self.near(picks)
        deviation = np.sqrt(left)[:, None] * self.spread
        expected = self.known.base + shared @ self.weights
        open_ = (np.abs(expected) < SURE * deviation).any(0)
        right = ndtr(expected[:, open_] / deviation[:, open_])
        count = expected.shape[1]
        mean = (right.sum(1) + (expected[:, ~open_] > 0).sum(1)) / count
        spread = np.sqrt((right * (1 - right)).sum(1)) / count + FLAT
        far = (mean - best) / spread
        return spread * (far * ndtr(far) + np.exp(-np.square(far) / 2) / np.sqrt(2 * np.pi))


def learned(known: Known, kl: Floats) -> Shifts:
    """The process that what was measured speaks for most."""
    kl = np.maximum(kl, LEAST) / kl.max()
    fits = (_fit(known, kl**power, alone) for power, alone in itertools.product(POWERS, ALONE))
    return max(fits, key=lambda f: f[0])[1]


def _fit(known: Known, kl: Floats, alone: float) -> tuple[float, Shifts]:
    shift = known.margins - known.base
    kernel = _shared(kl, known.picks, known.picks, alone)[0] + FLAT * np.eye(len(shift))
    inverse = np.asarray(np.linalg.inv(kernel), np.float64)
    weights = inverse @ shift
    each = np.maximum((shift * weights).sum(0), FLAT)
    trials, count = shift.shape
    level = each.sum() / (trials * count)
    spread = np.sqrt((each + PRIOR * level) / (trials + PRIOR))
    likely = -0.5 * count * (float(np.linalg.slogdet(kernel)[1]) + trials * float(np.log(level)))
    return likely, Shifts(known, kl, alone, spread, inverse, weights)


def _shared(kl: Floats, picks: Whole, others: Whole, alone: float) -> tuple[Floats, Floats]:
    """The covariance of each with each of the others, and its own: of what adds up, and of what acts together."""
    rows = np.arange(kl.shape[0])
    size, theirs = kl[rows, picks], kl[rows, others].sum(1)
    shared = np.stack([(size * (picks == row)).sum(1) for row in others], 1)
    whole = size.sum(1)
    return shared + alone * np.square(shared) / np.sqrt(np.outer(whole, theirs)), (1 + alone) * whole


def climbed(
    shifts: Shifts, starts: Iterable[Whole], fits: Callable[[Whole], NDArray[np.bool_]], tried: set[tuple[int, ...]],
    sizes: Sequence[int], chance: np.random.Generator,
) -> Whole | None:  # fmt: skip
    """The configuration that may gain most, of those that are reached from `starts` by changes of one or two choices.

    `fits`: which of many hold the limits; `sizes`: how many values each choice has.
    """
    best = float(shifts.known.accuracies.max(initial=0.0))
    found: tuple[float, Whole] | None = None
    for start in starts:
        at, worth = start, -1.0
        for _ in range(STEPS):
            near = _near(at, sizes, chance)
            near = near[fits(near)]
            near = near[[tuple(p) not in tried for p in near.tolist()]]
            if not len(near):
                break
            near = np.concatenate([shifts.promising(at, near), near[chance.permutation(len(near))[:LOOKED_AT]]])
            gains = shifts.gain(near, best)
            top = int(gains.argmax())
            if gains[top] <= worth:
                break
            at, worth = near[top], float(gains[top])
        if worth >= 0 and (found is None or worth > found[0]):
            found = worth, at
    return None if found is None else found[1]


def _near(at: Whole, sizes: Sequence[int], chance: np.random.Generator) -> Whole:
    """It with each choice changed, and with some pairs changed."""
    ones = [(i, v) for i, size in enumerate(sizes) for v in range(size) if v != at[i]]
    found = np.repeat(at[None], len(ones) + PAIRS, 0)
    for row, (i, v) in enumerate(ones):
        found[row, i] = v
    rows = np.arange(len(ones), len(found))
    for where in chance.integers(len(sizes), size=(2, PAIRS)):
        found[rows, where] = (chance.random(PAIRS) * np.array(sizes)[where]).astype(np.int64)
    return found
