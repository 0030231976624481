"""How far predictions are off by format: dots and medians where they belong, and no part of the panel left empty."""

from __future__ import annotations

import math

import pytest
from PySide6.QtCore import QPointF
from pytestqt.qtbot import QtBot

from espalier.app.features.sensitivity.charts.dots import dots_of
from espalier.app.features.sensitivity.charts.error_spread import ErrorSpread
from espalier.app.features.sensitivity.views import SCATTER, Views
from espalier.model.formats.base import parse_format
from espalier.passes.sensitivity.table import Candidate, Sensitivity

pytestmark = pytest.mark.gui
CHOICES = tuple(Candidate(parse_format(f"integer(width={w}, frac_width=2)")) for w in (8, 2, 4))
PREDICTED = (1e-6, 1e-3, 1e-4)
ROWS = tuple(
    Sensitivity(name, port, 1, CHOICES, PREDICTED, PREDICTED, measured)
    for name, port, measured in (
        ("a", "weight", (1e-6, 1e-2, None)),
        ("b", "data_in", (2e-6, 4e-3, None)),
        ("c", "weight", (0.5e-6, 2e-3, 3e-4)),
    )
)


@pytest.fixture
def chart(qtbot: QtBot) -> ErrorSpread:
    made = ErrorSpread()
    qtbot.addWidget(made)
    made.resize(600, 300)
    made.show()
    made.show_dots(dots_of(ROWS))
    return made


def test_a_dot_stands_at_its_format_and_ratio(chart: ErrorSpread) -> None:
    assert [n.split()[-1] for n in chart.names] == ["2", "4", "8"], "from few bits to many"
    assert len(chart.places) == len(chart.dots) == 7
    for dot, (x, y) in zip(chart.dots, chart.places, strict=True):
        assert round(y) == chart.names.index(dot.title) and x == pytest.approx(math.log10(dot.measured / dot.predicted))
        assert chart.near(chart.spot(dot)) is dot
    assert len({tuple(p) for p in chart.places}) == 7 and chart.near(QPointF(-50, -50)) is None
    bars = [item.getData() for item in chart.plot.listDataItems() if hasattr(item, "curve")]
    assert 10 ** bars[0][0] == pytest.approx([4, 4, 3, 3, 1, 1]), "the medians"
    assert [name for _, name in chart.plot.getAxis("left")._tickLevels[0]] == list(chart.names), "in full"
    names, rows = chart.table()
    assert [r[-1] for r in rows] == pytest.approx([d.measured / d.predicted for d in chart.dots]) and len(names) == 6


def test_nothing_measured_is_nothing_drawn(chart: ErrorSpread) -> None:
    chart.show_dots(())
    assert chart.near(QPointF(10, 10)) is None and not list(chart.table()[1])


@pytest.mark.parametrize("width", [1280, 1600])
def test_both_plots_fill_the_panel(qtbot: QtBot, width: int) -> None:
    views = Views()
    qtbot.addWidget(views)
    views.scatter.show_table(ROWS)
    views.tabs.setCurrentIndex(SCATTER)
    views.resize(width, 400)
    views.show()
    qtbot.waitUntil(lambda: views.spread.isVisible() and views.scatter.width() + views.spread.width() > 0.95 * width)
    assert views.spread.geometry().right() >= width - 8
