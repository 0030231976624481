"""Intermediate values of trials, for the chart in the window and in a file."""

from __future__ import annotations

import numpy as np

from espalier.app.figures.study.data import Study
from espalier.app.translation import translated
from espalier.model.data.base import Array

STEP_TITLES = translated({"samples": "samples seen", "steps": "steps of training"})


def figure_of(study: Study) -> str:
    """The metric of the intermediate values: the first goal."""
    return study.goals[0].figure if study.goals else ""


def leading(study: Study) -> int | None:
    """The row of the best trial by that metric; None if no trial is feasible."""
    merit = study.merit(figure_of(study)) if len(study) else np.zeros(0)
    return int(np.argmax(merit)) if np.isfinite(merit).any() else None


def intermediate_values(study: Study) -> Array:
    """The intermediate values of all trials, concatenated."""
    return np.array([v for t in study.trials for _, v in t.steps], float)


def core_of(values: Array, *, rising: bool) -> tuple[float, float, float]:
    """The range of all values but the worst hundredth, and its margin. `rising`: higher is better."""
    low = float(np.quantile(values, 0.01 if rising else 0.0, method="lower"))  # all values, if fewer than a hundred
    high = float(np.quantile(values, 1.0 if rising else 0.99, method="higher"))
    return low, high, 0.04 * ((high - low) or abs(low) or 1.0)
