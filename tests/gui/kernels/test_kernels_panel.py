"""The panel Kernels, tab Run: chosen, measured row by row, read, stopped, and told where it cannot."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.panel import TABS, KernelsPanel
from espalier.app.features.kernels.runs import KernelRuns
from espalier.app.features.kernels.state.row_text import row_tooltip
from espalier.app.features.kernels.views import COMPARE, CURVES, ROOF, SOURCE, TABLE
from espalier.app.shell.window import Window
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import Done, Failed, PartialResult, Progress, Started
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.kernels.kernel_runs import begin, job, measured, quiet
from tests.gui.kernels.kernels_lab import LAB, LIMITS, NO_CUDA, NO_TRITON, row, rows

pytestmark = pytest.mark.gui


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
        runner[-1].tell(info, PartialResult(each))
    table = page.views.table
    qtbot.waitUntil(lambda: len(table.rows.shown) == 3)
    assert page._status.toolTip() == "softmax m=256,n=128 float32 · 3 rows"
    table.sortByColumn(table.rows.columns.index("time (ms)"), Qt.SortOrder.DescendingOrder)
    table.selectRow(0)
    chosen = table.rows.shown[0]
    for each in rows()[3:]:
        runner[-1].tell(info, PartialResult(each))
    qtbot.waitUntil(lambda: len(table.rows.shown) == 6)
    times = [r["time (ms)"] for r in table.rows.shown]
    assert times == sorted(times, reverse=True)  # the order stays
    at = [i.row() for i in table.selectionModel().selectedRows()]
    assert [table.rows.shown[i] for i in at] == [chosen]  # and what is selected
    runner[-1].tell(info, Done(None))
    assert page.setup.run_button.isEnabled() and page.setup.stop_button.isHidden()
    assert page._status.toolTip().startswith("6 rows · copy 10 GB/s · fp32 product 100 GFLOP/s")


@pytest.mark.slow
def test_a_row_without_a_time_says_why_and_copies(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row()))
    runner[-1].tell(info, PartialResult(row("naive", seconds=None, problem="out of memory: about 9 GiB")))
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


@pytest.mark.slow
def test_cancel_keeps_the_rows(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row()))
    page.setup.stop_button.click()
    assert page.run is not None and page.run.stopped and len(page.run.rows) == 1
    assert "stopped" in page._status.toolTip() and page.setup.run_button.isEnabled()
    begin(page, runner)
    page.setup.stop_button.click()
    assert len(page.state.runs) == 1  # nothing came of the second


def test_a_run_lets_a_job_that_waits_go_first(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row()))
    assert runner[-1].kept == []
    other = window.session.submit("another", LabJob(), lambda _: None)
    assert runner[-1].kept == [info.id]
    runner[-1].tell(info, PartialResult(row(n=256)))
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
    runner[-1].tell(again, PartialResult(row(n=512)))
    runner[-1].tell(again, Done(0))
    assert [r.shape["n"] for r in page.run.rows] == [128, 256, 512] and page.run.job is None
    assert page.setup.run_button.isEnabled()


def test_a_worker_that_dies_leaves_the_rows(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row()))
    runner[-1].tell(info, Failed("The worker process ended unexpectedly (signal 9).", "Run the job again."))
    assert page._error.isVisibleTo(page) and "signal 9" in page._error.text()
    assert page.run is not None and len(page.views.table.rows.shown) == 1


def test_a_busy_machine_is_told(page: KernelRuns, runner: list[FakeRunner]) -> None:
    measured(page, runner)
    assert page._busy.isHidden()
    info = begin(page, runner)
    for share in (0.5, 0.3, None):
        runner[-1].tell(info, PartialResult(row(others=share)))
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
    runner[-1].tell(info, PartialResult(row()))
    runner[-1].tell(info, Done(None))
    assert page.setup.run_button.hasFocus()


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


@pytest.mark.slow
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
    window.show_dock("data")
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
    window.show_dock("data")
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
    window.docks.panels["kernels"].setFixedHeight(280)
    for at in (TABLE, CURVES, ROOF, SOURCE, COMPARE):
        page.views.tabs.setCurrentIndex(at)
        QTest.qWait(1)
        assert page.views.width() >= 680 and page.views.tabs.height() >= QTabBar.sizeHint(page.views.tabs).height()
        shown = page.views._pages.currentWidget()
        assert shown is not None and shown.height() >= 100
    assert page.width() <= panel_of(window.host).width() and window.width() == 1280


@pytest.mark.slow
def test_a_long_list_of_rows_does_not_hold_the_window(page: KernelRuns, runner: list[FakeRunner]) -> None:
    info = begin(page, runner)
    for n in range(300):
        runner[-1].tell(info, PartialResult(replace(row(n=n + 1), rounds=n)))
    assert len(page.views.table.rows.shown) < 300  # told in time, not row by row
    runner[-1].tell(info, Done(None))
    assert len(page.views.table.rows.shown) == 300


@pytest.mark.slow
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
