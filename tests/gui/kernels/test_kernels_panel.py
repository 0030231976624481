"""The panel Kernels, tab Run: chosen, measured row by row, drawn, read, stopped, and told where it cannot."""

from __future__ import annotations

import csv
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.charts.kernel_sweep import KernelSweep
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.panel import TABS, KernelsPanel
from espalier.app.features.kernels.runs import KernelRuns
from espalier.app.features.kernels.source import KernelSource
from espalier.app.features.kernels.state.row_text import BYTES, cells, row_tooltip, size_axis
from espalier.app.features.kernels.views import COMPARE, CURVES, ROOF, SOURCE, TABLE
from espalier.app.shell.window import Window
from espalier.app.widgets.charts.log_chart import tick_values
from espalier.kernels.bench.results import ABOVE
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import Done, Failed, Found, JobInfo, OpenJob, Progress, Started, Stopped
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.kernels.kernels_lab import LAB, LIMITS, NO_CUDA, NO_TRITON, header, row, rows

pytestmark = pytest.mark.gui


def quiet(runner: list[FakeRunner]) -> None:
    """End the jobs that other panels began by themselves."""
    for info in [i for i in runner[-1].waiting if not isinstance(i.job, LabJob | KernelsJob | OpenJob)]:
        runner[-1].tell(info, Stopped())


@pytest.fixture
def page(window: Window, runner: list[FakeRunner]) -> KernelRuns:
    """The tab in front, of a window with the small model; the worker has listed the kernels."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    made = panel_of(window.host).page("Run")
    assert isinstance(made, KernelRuns)
    runner[-1].tell(job(runner, LabJob), Done(LAB))
    return made


def job(runner: list[FakeRunner], kind: type = KernelsJob) -> JobInfo:
    """The job of a kind that waits or runs."""
    return next(i for i in runner[-1].waiting if isinstance(i.job, kind))


def begin(page: KernelRuns, runner: list[FakeRunner], *names: str) -> JobInfo:
    """Run kernels; the worker has begun and told of the machine."""
    page.list.select(names or ("softmax",))
    page.setup.run()
    info = job(runner)
    assert isinstance(info.job, KernelsJob)
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Found(header(info.job.request)))
    runner[-1].tell(info, Found(LIMITS))
    return info


def measured(page: KernelRuns, runner: list[FakeRunner], slower: float = 2.0) -> None:
    """A run of softmax to its end."""
    info = begin(page, runner)
    for each in rows(slower):
        runner[-1].tell(info, Found(each))
    runner[-1].tell(info, Done(None))


def test_nothing_is_built_before_it_is_seen(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_small(window, runner)
    QTest.qWait(20)
    panel = window.docks.panels["kernels"]
    assert isinstance(panel, KernelsPanel) and not panel.pages
    assert not any(isinstance(i.job, LabJob) for i in runner[-1].waiting)
    window.show_dock("kernels")
    qtbot.waitUntil(lambda: list(panel.pages) == ["Run"])
    assert job(runner, LabJob)


def test_reading_of_kernels_needs_no_torch() -> None:
    kernels = "espalier.app.features.kernels"
    text = f"import sys, {kernels}.runs, {kernels}.actions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def test_families_filter_and_selection(page: KernelRuns) -> None:
    assert [k.name for k in page.list.chosen] == ["norm"]
    family = page.list.tree.topLevelItem(0)
    assert family is not None and family.text(0) == "Rows  2"
    page.list.tree.clearSelection()
    assert not page.setup.run_button.isEnabled() and "No kernel is selected" in page.setup.estimate.text()
    family.setSelected(True)
    assert [k.name for k in page.list.chosen] == ["norm", "softmax"]
    assert page.setup.run_button.text() == "Run 2 kernels"
    page.list.filter.setText("soft")
    assert [k.name for k in page.list.chosen] == ["softmax"]
    assert family.child(0).isHidden() and not family.isHidden()
    page.list.filter.setText("")


def test_what_cannot_run_says_why(page: KernelRuns) -> None:
    page.list.select(("softmax",))
    assert NO_CUDA in page.setup.device.itemText(1)
    assert page.setup.device.get() == "cpu"
    triton, torch = page.setup.versions["triton"], page.setup.versions["torch"]
    assert not triton.isEnabled() and not triton.isChecked() and NO_TRITON in triton.toolTip()
    assert NO_TRITON in page.setup.lacking.text() and page.setup.lacking.isVisibleTo(page)
    assert torch.isChecked() and not torch.isEnabled() and "ratios" in torch.toolTip()
    assert not page.setup.versions["compiled"].isChecked()
    page.list.select(("norm",))
    assert page.setup.lacking.isHidden()


def test_fields_make_the_request(page: KernelRuns, runner: list[FakeRunner]) -> None:
    setup = page.setup
    page.list.select(("softmax",))
    assert setup.request().versions == ("torch", "naive")  # triton is told of once, not in every row
    setup.versions["compiled"].setChecked(True)
    setup.types["bfloat16"].setChecked(True)
    setup.seconds.put(0.5)
    setup.threads.put(2)
    setup.sizes.put("sweep")
    setup.sizes.edited.emit()
    assert setup.estimate.text().startswith("18 rows · about")
    setup.run()
    made = job(runner).job
    assert isinstance(made, KernelsJob)
    wish = made.request
    assert (wish.kernels, wish.device, wish.dtypes) == (("softmax",), "cpu", ("float32", "bfloat16"))
    assert (wish.versions, wish.sweep, wish.seconds, wish.threads) == (("torch", "naive", "compiled"), True, 0.5, 2)
    page.list.select(("norm",))
    assert setup.request().versions == ()


def test_own_sizes_are_checked_while_they_are_typed(page: KernelRuns, runner: list[FakeRunner]) -> None:
    setup = page.setup
    setup.sizes.put("own")
    setup.sizes.edited.emit()
    assert "No size is given" in setup.estimate.text() and not setup.run_button.isEnabled()
    QTest.keyClicks(setup.own, "64x32 m=8,k=2")
    assert "no dimension 'k'" in setup.estimate.text() and not setup.run_button.isEnabled()
    setup.own.clear()
    QTest.keyClicks(setup.own, "64x32 m=8")
    QTest.keyClick(setup.own, Qt.Key.Key_Return)
    made = job(runner).job
    assert isinstance(made, KernelsJob) and made.request.shapes == ("64x32", "m=8")
    page.list.select(("norm", "softmax"))
    assert setup.sizes.get() == "usual"  # sizes are of one kernel


def test_rows_arrive_one_by_one(page: KernelRuns, runner: list[FakeRunner], qtbot: QtBot) -> None:
    info = begin(page, runner)
    assert page.setup.stop_button.isVisibleTo(page) and not page.setup.run_button.isEnabled()
    assert "first row" in page.views._empty.text()
    runner[-1].tell(info, Progress(0, 3, "softmax m=256,n=128 float32"))
    for each in rows()[:3]:
        runner[-1].tell(info, Found(each))
    table = page.views.table
    qtbot.waitUntil(lambda: len(table.rows.shown) == 3)
    assert page._status.toolTip() == "softmax m=256,n=128 float32 · 3 rows"
    table.sortByColumn(table.rows.columns.index("time (ms)"), Qt.SortOrder.DescendingOrder)
    table.selectRow(0)
    chosen = table.rows.shown[0]
    for each in rows()[3:]:
        runner[-1].tell(info, Found(each))
    qtbot.waitUntil(lambda: len(table.rows.shown) == 6)
    times = [r["time (ms)"] for r in table.rows.shown]
    assert times == sorted(times, reverse=True)  # the order stays
    at = [i.row() for i in table.selectionModel().selectedRows()]
    assert [table.rows.shown[i] for i in at] == [chosen]  # and what is selected
    runner[-1].tell(info, Done(None))
    assert page.setup.run_button.isEnabled() and page.setup.stop_button.isHidden()
    assert page._status.toolTip().startswith("6 rows · copy 10 GB/s · fp32 product 100 GFLOP/s")


def test_a_row_without_a_time_says_why_and_copies(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, Found(row()))
    runner[-1].tell(info, Found(row("naive", seconds=None, problem="out of memory: about 9 GiB")))
    runner[-1].tell(info, Done(None))
    table = page.views.table
    time = table.rows.columns.index("time (ms)")
    assert table.rows.data(table.rows.index(1, time)) == "out of memory: about 9 GiB"
    assert table.columnSpan(1, time) == len(table.rows.columns) - time and table.columnSpan(0, time) == 1
    assert "1 without a time" in page._status.toolTip()
    table.copy()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].split("\t")[:5] == ["kernel", "version", "shape", "type", "time (ms)"]
    assert lines[1].split("\t")[4] == "0.1" and lines[2].endswith("out of memory: about 9 GiB")


def test_cancel_keeps_the_rows(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, Found(row()))
    page.setup.stop_button.click()
    assert page.run is not None and page.run.stopped and len(page.run.rows) == 1
    assert "stopped" in page._status.toolTip() and page.setup.run_button.isEnabled()
    begin(page, runner)
    page.setup.stop_button.click()
    assert len(page.state.runs) == 1  # nothing came of the second


def test_a_run_lets_a_job_that_waits_go_first(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, Found(row()))
    assert runner[-1].kept == []
    other = window.session.submit("another", LabJob(), lambda _: None)
    assert runner[-1].kept == [info.id]
    runner[-1].tell(info, Found(row(n=256)))
    assert runner[-1].kept == [info.id]  # asked once
    runner[-1].tell(info, Done(2))
    again = job(runner)
    assert isinstance(info.job, KernelsJob) and info.job == KernelsJob(info.job.request, 2, LIMITS)
    assert (
        again is info
        and page.run is not None
        and page.run.job is again
        and not page.run.stopped
        and len(page.state.runs) == 1
    )
    runner[-1].tell(other, Done(LAB))
    runner[-1].tell(again, Started())
    runner[-1].tell(again, Found(row(n=512)))
    runner[-1].tell(again, Done(0))
    assert [r.shape["n"] for r in page.run.rows] == [128, 256, 512] and page.run.job is None
    assert page.setup.run_button.isEnabled()


def test_a_worker_that_dies_leaves_the_rows(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, Found(row()))
    runner[-1].tell(info, Failed("The worker process ended unexpectedly (signal 9).", "Run the job again."))
    assert page._error.isVisibleTo(page) and "signal 9" in page._error.text()
    assert page.run is not None and len(page.views.table.rows.shown) == 1


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


def test_a_busy_machine_is_told(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    assert page._busy.isHidden()
    info = begin(page, runner)
    for share in (0.5, 0.3, None):
        runner[-1].tell(info, Found(row(others=share)))
    runner[-1].tell(info, Done(None))
    assert page._busy.isVisibleTo(page) and page._busy.text().startswith("Other programs took 40\u2009% of")
    assert "took 50\u2009% of" in row_tooltip(row(others=0.5)) and "Other" not in row_tooltip(row(others=0.02))


def test_the_keyboard_stays_with_the_run(page: KernelRuns, runner: list[FakeRunner], qtbot: QtBot) -> None:
    page.list.select(("softmax",))
    page.window().activateWindow()
    qtbot.focus(page.setup.run_button)
    QTest.keyClick(page.setup.run_button, Qt.Key.Key_Space)
    info = job(runner)
    assert page.setup.stop_button.hasFocus()  # not whatever comes next in the window
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Found(row()))
    runner[-1].tell(info, Done(None))
    assert page.setup.run_button.hasFocus()


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
    runner[-1].tell(info, Found(row(others=0.5)))
    runner[-1].tell(info, Done(None))
    page.views.tabs.setCurrentIndex(COMPARE)
    page.views.comparison.refresh()
    told = page.views.comparison.words.text().splitlines()
    assert sum("Other programs took 50" in line for line in told) == 1


def test_at_first_runs_stand_beside_that_have_most_in_common(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    info = begin(page, runner)
    runner[-1].tell(info, Found(row(n=4096)))
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


def test_the_panel_stays_where_it_is_asked_for_before_the_window_is_furnished(window: Window) -> None:
    fresh = Window(window.session, window.settings, window.appearance)
    fresh.show()
    assert not fresh.panels_built
    panel_of(fresh.host)
    while fresh._lazy_panels.busy:
        fresh._lazy_panels.build_part()
    assert fresh.panels_built and fresh.docks.docks["kernels"].isVisible()
    fresh.deleteLater()


def test_commands_run_and_stop(window: Window, runner: list[FakeRunner]) -> None:
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    window.actions_table.run("kernels_run")
    runner[-1].tell(job(runner, LabJob), Done(LAB))
    info = job(runner)  # as soon as it was known what there is
    assert isinstance(info.job, KernelsJob) and info.job.request.kernels == ("norm",)
    window.actions_table.refresh()
    assert window.actions_table.actions["kernels_stop"].isEnabled()
    window.actions_table.run("kernels_stop")
    assert not any(isinstance(i.job, KernelsJob) for i in runner[-1].waiting)


def test_the_key_runs_what_is_in_front(window: Window, runner: list[FakeRunner]) -> None:
    """F7 on a tab that is seen is for that tab; what is not seen is not what is meant."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    panel, words = panel_of(window.host), window.actions_table.actions["kernels_run"]
    window.show_dock("kernels")
    panel.page("Profile")
    assert words.text() == "Run the tab Profile"
    window.actions_table.run("kernels_run")
    info = next(i for i in runner[-1].waiting if i.title == "Profile")
    assert not any(isinstance(i.job, KernelsJob) for i in runner[-1].waiting)
    window.actions_table.run("kernels_stop")
    assert info not in runner[-1].waiting
    panel.page("How it works")
    assert words.text() == "Measure the question's figures"
    window.show_dock("log")
    window.actions_table.menus["Run"].aboutToShow.emit()
    assert words.text() == "Run kernels"
    window.actions_table.run("kernels_run")
    assert panel.title == "Run" and panel.isVisible()


def test_cancelling_is_offered_whatever_is_in_front(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    """Also after a change of docks, which opens no menu."""
    window.live.enabled = False
    open_small(window, runner)
    quiet(runner)
    actions = window.actions_table.actions
    words, stop = actions["kernels_run"], actions["kernels_stop"]
    panel = panel_of(window.host)
    panel.page("Profile")
    window.actions_table.run("kernels_run")
    info = next(i for i in runner[-1].waiting if i.title == "Profile")
    window.show_dock("jobs")
    qtbot.waitUntil(lambda: not panel.isVisible() and words.text() == "Run kernels")
    window.session.select(("fc1",))
    assert stop.isEnabled()
    window.show_dock("kernels")
    qtbot.waitUntil(lambda: panel.isVisible() and words.text() == "Run the tab Profile")
    assert stop.isEnabled()
    window.show_dock("jobs")
    window.actions_table.run("kernels_stop")
    assert info not in runner[-1].waiting and not stop.isEnabled()
    window.show_dock("kernels")
    window.actions_table.run("kernels_run")
    info = next(i for i in runner[-1].waiting if i.title == "Profile")
    assert stop.isEnabled()
    runner[-1].tell(info, Failed("The worker process ended unexpectedly.", "Run the job again."))
    assert not stop.isEnabled(), "nothing is left to end"


def test_a_list_that_fails_can_be_asked_again(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner)
    page = panel_of(window.host).page("Run")
    assert isinstance(page, KernelRuns)
    runner[-1].tell(job(runner, LabJob), Failed("The worker process ended unexpectedly.", "Run the job again."))
    assert "unexpectedly" in page._error.text() and page._again.isVisibleTo(page)
    page._again.click()
    runner[-1].tell(job(runner, LabJob), Done(LAB))
    assert page._again.isHidden() and page.list.chosen and not page._error.isVisibleTo(page)


def test_every_tab_without_clipping_at_280(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    measured(page, runner)
    window.resize(1280, 800)
    window.resizeDocks([window.docks.docks["kernels"]], [280], Qt.Orientation.Vertical)
    for at in (TABLE, CURVES, ROOF, SOURCE, COMPARE):
        page.views.tabs.setCurrentIndex(at)
        QTest.qWait(1)
        assert page.views.width() >= 700 and page.views.tabs.height() >= QTabBar.sizeHint(page.views.tabs).height()
        shown = page.views._pages.currentWidget()
        assert shown is not None and shown.height() >= 100
    assert page.width() <= panel_of(window.host).width() and window.width() == 1280


def test_a_long_list_of_rows_does_not_hold_the_window(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    for n in range(300):
        runner[-1].tell(info, Found(replace(row(n=n + 1), rounds=n)))
    assert len(page.views.table.rows.shown) < 300  # told in time, not row by row
    runner[-1].tell(info, Done(None))
    assert len(page.views.table.rows.shown) == 300


def test_what_tells_sizes_apart() -> None:
    def held(*shapes: tuple[int, int]) -> str:
        found = [replace(row(), shape={"m": m, "n": n}, bytes_least=8 * m * n) for m, n in shapes]
        return size_axis([*found, *found]).title

    assert held((256, 128), (256, 512)) == "n"
    assert held((512, 128), (128, 512)) == "n"  # as many bytes: by the rows' length
    assert held((768, 3072), (333, 1000)) == held((768, 3072), (768, 100), (333, 10)) == BYTES


def test_the_panel_can_be_made_low_and_scrolls_then(window: Window) -> None:
    window.show_dock("kernels")
    panel = window.docks.panels["kernels"]
    assert isinstance(panel, KernelsPanel)
    for tab in TABS:
        page = panel.page(tab.title)
        assert panel.minimumSizeHint().height() <= 160
        panel.resize(700, 150)
        QApplication.processEvents()
        assert page.height() >= page.minimumSizeHint().height()  # nothing is squeezed: it is scrolled
