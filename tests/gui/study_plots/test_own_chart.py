"""The chart of the guide's page, drawn on a made study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF

from espalier.app.features.search.charts.board import KINDS
from espalier.app.theme import DARK
from tests.gui.study_plots.shown import show, spot
from tests.reference.examples import blocks

pytestmark = pytest.mark.gui


@pytest.fixture
def chart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The page's chart, among those that the board offers."""
    held: dict[str, Any] = {"__name__": "guide"}
    exec(blocks("how-to/chart.md", "python")[0], held)
    monkeypatch.setitem(KINDS, "Durations", held["DurationChart"])
    return show(request.getfixturevalue("board"), 60, "Durations")


def test_the_chart_of_the_guide_draws_every_trial(chart: Any) -> None:
    x, y = chart._dots.getData()
    assert len(x) == 60 and np.nanmax(y) > 0
    assert chart.near(QPointF(spot(chart, 7))) == 7
    head, rows = chart.table()
    assert "seconds" in head and len(rows) == 60


def test_the_chart_of_the_guide_follows_the_theme(chart: Any) -> None:
    chart.set_theme(DARK)
    assert chart._dots.opts["brush"].color().name() == DARK.accent.lower() and len(chart._dots.getData()[0]) == 60
