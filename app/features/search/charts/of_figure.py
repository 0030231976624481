"""What painted charts of one figure share: which figure, and what else is chosen of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from espalier.app.features.search.charts.painted import PaintedChart
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.model.data.base import Array


class OfFigure(PaintedChart):
    """`fields`: the options by the attributes that hold them; another value draws all anew."""

    fields: ClassVar[Mapping[str, str]] = {"figure": "figure"}

    def __init__(self) -> None:
        self.figure = ""
        self._left: Array | None = None
        super().__init__()

    def option(self, name: str) -> Any:
        """What is chosen."""
        return getattr(self, self.fields[name])

    def choose(self, name: str, value: Any) -> None:
        """Choose, and draw anew."""
        setattr(self, self.fields[name], value)
        self.take(None)
        self.refresh()

    def show_study(self, study: Study) -> None:
        """Show a study; a figure that it lacks gives way to its first."""
        self._left = None
        if self.figure not in study.names:
            self.figure = study.names[0] if study.names else ""
        super().show_study(study)

    def dim(self, mask: Array | None) -> None:
        """Let only these trials stand out."""
        self._left = mask
        self.update()

    def _stands_out(self, places: Array) -> Array:
        """Which of these trials are left; those that came since are not."""
        there = np.zeros(len(self.study), bool)
        if self._left is not None:
            there[: len(self._left)] = self._left[: len(there)]
        return there[places]

    def empty(self) -> str:
        """Why nothing is drawn."""
        if not len(self.study):
            return super().empty()
        if not len(self.study.params.names):
            return "The trials chose nothing."
        return "" if (self.study.state == COMPLETE).any() else "No trial is complete yet."
