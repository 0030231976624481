"""What trials told on their way, for the chart in the window and for the one in a file."""

from __future__ import annotations

import numpy as np

from espalier.app.figures.study.data import Study
from espalier.model.data.base import Array

SEEN = {"samples": "samples seen", "steps": "steps of training"}


def figure_of(study: Study) -> str:
    """What is told on the way: the first goal."""
    return study.goals[0].figure if study.goals else ""


def leading(study: Study) -> int | None:
    """The place of the best trial by that figure; None where none counts."""
    merit = study.merit(figure_of(study)) if len(study) else np.zeros(0)
    return int(np.argmax(merit)) if np.isfinite(merit).any() else None


def told(study: Study) -> Array:
    """All values of all trials."""
    return np.array([v for t in study.trials for _, v in t.steps], float)


def core_of(values: Array, *, rising: bool) -> tuple[float, float, float]:
    """The least and the most of all values but the worst hundredth, and the room around. `rising`: more is better."""
    low = float(np.quantile(values, 0.01 if rising else 0.0, method="lower"))  # of fewer than a hundred, all
    high = float(np.quantile(values, 1.0 if rising else 0.99, method="higher"))
    return low, high, 0.04 * ((high - low) or abs(low) or 1.0)
