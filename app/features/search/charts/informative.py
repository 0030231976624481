"""Selection of the choices that explain most of a metric, since only a few axes are legible side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from espalier.app.features.search.charts.axes import Axis, axes_of
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.model.data.base import Array

RECENT = 2000  # number of recent trials used


def picked(study: Study, figure: str, current: Sequence[Axis], room: int) -> list[Axis]:
    """The axes to show; axes shown already are kept, in their order if the set is unchanged."""
    by_name = {a.name: a for a in current}
    axes = [by_name.get(a.name, a) for a in informative(study, figure, axes_of(study), room)]
    if set(by_name) == {a.name for a in axes}:
        axes.sort(key=lambda a: list(by_name).index(a.name))
    return axes


def informative(study: Study, figure: str, axes: list[Axis], room: int) -> list[Axis]:
    """The axes of metrics, and the `room` axes of choices that explain most of `figure`."""
    choices = [a for a in axes if a.scale is not None]
    few = max(room - (len(axes) - len(choices)), 1)
    if len(choices) <= few:
        return axes
    indices = np.flatnonzero((study.state == COMPLETE) & np.isfinite(study.figures[figure]))[-RECENT:]
    y = study.figures[figure][indices]
    shares = np.array([explained(a.values(study)[indices], y, a.is_categorical) for a in choices])
    chosen = {id(choices[k]) for k in np.argsort(-shares, kind="stable")[:few]}
    return [a for a in axes if a.scale is None or id(a) in chosen]


def explained(x: Array, y: Array, is_categorical: bool) -> float:
    """Share of the variance of y explained by x: η² adjusted for categories, or R² of a linear fit."""
    there = np.isfinite(x)
    x, y = x[there], y[there]
    if len(y) < 3 or not (spread := float(((y - y.mean()) ** 2).sum())) or x.min() == x.max():
        return 0.0
    if not is_categorical:
        return float(np.corrcoef(x, y)[0, 1] ** 2)
    codes = x.astype(int)
    many = np.bincount(codes)
    sums = np.bincount(codes, y - y.mean())
    groups = int((many > 0).sum())
    between = float((sums**2 / np.maximum(many, 1)).sum())
    return max(between / spread - (groups - 1) / (len(y) - 1), 0.0)  # less the share expected by chance
