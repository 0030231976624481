"""Charts, sources and the comparison of runs of kernels."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.charts.kernel_sweep import KernelSweep
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.runs import KernelRuns
from espalier.app.features.kernels.source import KernelSource
from espalier.app.features.kernels.state.row_text import BYTES, cells, row_tooltip, size_axis
from espalier.app.features.kernels.views import COMPARE, CURVES, ROOF, SOURCE
from espalier.app.shell.window import Window
from espalier.app.widgets.charts.log_chart import tick_values
from espalier.kernels.bench.results import ABOVE
from espalier.passes.jobs.kinds import Done, PartialResult
from tests.gui.conftest import FakeRunner
from tests.gui.kernels.kernel_runs import begin, measured
from tests.gui.kernels.kernels_lab import LIMITS, row, rows

pytestmark = pytest.mark.gui


@pytest.mark.slow
def test_curves_and_roofline_lead_to_the_row(page: KernelRuns, runner: list[FakeRunner], tmp_path: Path) -> None:
    measured(page, runner)
    page.views.tabs.setCurrentIndex(CURVES)
    chart = page.views.curves.chart
    assert list(chart.lines) == ["torch", "naive"] and [s.x for s in chart.lines["torch"]] == [128, 256, 512]
    assert "torch" in page.views.curves.legend.text()
    spot = chart.lines["naive"][1]
    assert chart.near(chart.place(spot)) == spot and "naive" in chart.words(spot.what)
    chart.chosen.emit(spot.what)
    at = [i.row() for i in page.views.table.selectionModel().selectedRows()]
    assert [page.views.table.rows.shown[i]["version"] for i in at] == ["naive"]
    page.views.figure.put("gb_s")
    page.views.figure.edited.emit()
    assert chart.roof == 10.0 and "a copy 10" in page.views.curves.legend.text()
    page.views.tabs.setCurrentIndex(ROOF)
    roof = page.views.roof.chart
    assert len(roof.spots) == 6 and all(s.x == pytest.approx(5 / 8) for s in roof.spots)
    assert "copy 10 GB/s" in page.views.roof.legend.text()
    for name in ("a.png", "a.svg", "a.csv"):
        page.views.export(tmp_path / name)
    assert not QImage(str(tmp_path / "a.png")).isNull()
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    found = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert len(found) == 6 and float(found[0]["roof (GFLOP/s)"]) == pytest.approx(10 * 5 / 8)


def written(chart: Roofline) -> list[str]:
    """The words that stand in a chart."""
    return [i.toPlainText() for i in chart.plot.items if isinstance(i, pg.TextItem)]


@pytest.mark.slow
def test_kernels_can_be_read_after_a_run_of_one(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    table = page.views.table
    page.window().show()
    panel_of(cast("Window", page.window()).host)
    column = table.rows.columns.index("kernel")
    assert table.isVisible() and table.isColumnHidden(column)
    names = ["softmax"] * 60 + ["fake_quant_block_minifloat"]
    table.show_run([replace(r, kernel=n) for r, n in zip(rows() * 11, names, strict=False)])
    assert not table.isColumnHidden(column)
    assert table.columnWidth(column) >= table.fontMetrics().horizontalAdvance(names[-1])


@pytest.mark.slow
def test_rates_are_in_the_unit_of_the_device(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    page.views.tabs.setCurrentIndex(CURVES)
    page.views.figure.put("tflop_s")
    page.views.figure.edited.emit()
    chart = page.views.curves.chart
    assert isinstance(chart, KernelSweep) and chart.up.title == "GFLOP/s" and chart.roof == pytest.approx(100)
    first = chart.lines["torch"][0]
    assert first.y == pytest.approx(first.what.tflop_s * 1e3)
    assert page.views.table.rows.shown[0]["GFLOP/s"] == pytest.approx(first.y, rel=1e-2)
    assert "TFLOP/s" in cells(replace(row(), device="cuda"))


def test_the_roofline_names_its_roofs_and_kernels() -> None:
    chart = Roofline()
    chart.show_rows(rows(), ("torch", "naive"), LIMITS)
    assert sorted(written(chart)) == ["copy 10 GB/s", "fp32 product 100 GFLOP/s"]  # a name for one kernel tells nothing
    norm = replace(row(seconds=1e-5), kernel="layer_norm")
    chart.show_rows([*rows(), norm], ("torch", "naive"), LIMITS)
    assert {"softmax", "layer norm"} <= set(written(chart))


def test_what_is_above_the_roof_has_no_share_and_says_so() -> None:
    chart, high = Roofline(), row(seconds=1e-6, of_roof=None, above_roof=True)
    chart.show_rows([row(), high], ("torch", "naive"), LIMITS)
    assert f"1 {ABOVE}" in chart.legend() and [r[-1] for r in chart.table()[1]] == ["", ABOVE]
    assert cells(high)["roof (%)"] is None and cells(high)[""] == ABOVE and ABOVE in row_tooltip(high)
    chart.show_rows([row()], ("torch", "naive"), LIMITS)
    assert "above" not in chart.legend()


def test_axes_have_two_figures_at_least_within_what_is_seen() -> None:
    sizes, ends = [6_216_000.0, 16_777_216.0], (5_400_000.0, 19_300_000.0)
    assert tick_values(sizes, ends, 8) == sizes  # 5 M and 20 M lie outside, 10 M alone tells no scale
    assert tick_values([1.0, 100.0], (0.8, 120.0), 8) == [1, 2, 5, 10, 20, 50, 100]
    assert tick_values([7.0], (6.0, 8.0), 8) == [7.0]


def test_source_is_of_the_chosen_version(page: KernelRuns, runner: list[FakeRunner], qtbot: QtBot) -> None:
    page.list.select(("softmax",))
    page.views.tabs.setCurrentIndex(SOURCE)
    source = page.views.source
    assert "def torch(x)" in source.text.toPlainText() and source.text.isReadOnly()
    measured(page, runner)
    page.views.table.selectRow(1)
    assert source.version.get() == "naive" and "def naive(x)" in source.text.toPlainText()
    words = source.description.text()
    assert "FLOPs 5·m·n" in words and "naive moves 8·m·n" in words and "at m=256,n=512" in words
    page.views.tabs.setCurrentIndex(SOURCE)
    qtbot.focus(source.text)
    QTest.keyClick(source.text, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert source.finder.query.hasFocus()
    assert colour(source, 1) == colour(source, 2) != colour(source, 3)  # a text of two lines


def colour(source: KernelSource, line: int) -> str:
    """The first colour of a line (from 0)."""
    found = source.text.document().findBlockByNumber(line).layout().formats()
    held = found[0].format  # type: ignore[attr-defined]
    return held.foreground().color().name()


@pytest.mark.slow
def test_two_runs_beside_each_other(page: KernelRuns, runner: list[FakeRunner]) -> None:
    page.views.tabs.setCurrentIndex(COMPARE)
    assert "Run the same kernels twice" in page.views.comparison._empty.text()
    measured(page, runner, 2.0)
    measured(page, runner, 1.0)
    page.views.tabs.setCurrentIndex(COMPARE)
    beside = page.views.comparison
    runs = list(page.state.runs)
    assert [beside.a.itemText(k)[:2] for k in range(beside.a.count())] == ["1:", "2:"]  # as in the list of runs
    beside.a.put(runs[0])
    beside.b.put(runs[1])
    beside.refresh()
    speeds = {r["version"]: r["B vs A (×)"] for r in beside.table.rows.shown}
    assert speeds == {"torch": 1.0, "naive": 2.0}
    assert beside.words.text().startswith("B is 1.41 × as fast as A in the geometric mean of 6 rows (1 to 2 ×).")
    beside.b.put(runs[0])
    beside.refresh()
    assert "the same run" in beside.words.text() and not beside.table.rows.shown


def test_a_run_beside_other_programs_says_so_where_it_is_compared(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row(others=0.5)))
    runner[-1].tell(info, Done(None))
    page.views.tabs.setCurrentIndex(COMPARE)
    page.views.comparison.refresh()
    told = page.views.comparison.words.text().splitlines()
    assert sum("Other programs took 50" in line for line in told) == 1


def test_at_first_runs_stand_beside_that_have_most_in_common(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row(n=4096)))
    runner[-1].tell(info, Done(None))
    page.views.tabs.setCurrentIndex(COMPARE)
    beside = page.views.comparison
    first, other = page.state.runs
    advance = beside.a.fontMetrics().horizontalAdvance
    assert all(advance(beside.a.itemText(k)) < beside.a.width() - 20 for k in range(2))  # machines can be read
    assert "no common kernel, version, type and shape. Run the same kernels" in beside.words.text()
    measured(page, runner)
    assert beside.a.get() not in (first, other) and beside.b.get() == first
    assert len(beside.table.rows.shown) == 6


def test_what_tells_sizes_apart() -> None:
    def held(*shapes: tuple[int, int]) -> str:
        found = [replace(row(), shape={"m": m, "n": n}, bytes_least=8 * m * n) for m, n in shapes]
        return size_axis([*found, *found]).title

    assert held((256, 128), (256, 512)) == "n"
    assert held((512, 128), (128, 512)) == "n"  # as many bytes: by the rows' length
    assert held((768, 3072), (333, 1000)) == held((768, 3072), (768, 100), (333, 10)) == BYTES
