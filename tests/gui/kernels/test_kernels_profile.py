"""The tab Profile: rows, selection, the timeline, colours of the graph, files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.charts.run_lanes import visible_lane
from espalier.app.features.kernels.measurement_tab import OLD
from espalier.app.features.kernels.profile import MANY, ProfilePage
from espalier.app.features.kernels.profile_canvas import NAMES
from espalier.app.shell.window import Window
from espalier.app.theme import DARK
from espalier.model.document.project import load_project, save_project
from espalier.model.formats.integer import Integer
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import Stopped
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.kernels.measured_tabs import finish, profile

pytestmark = pytest.mark.gui


MS = 1e-3


def node_row(node: str, begins: float, seconds: float, **more: Any) -> dict[str, Any]:
    return {"node": node, "op": "linear", "begins": begins, "calls": 1, "seconds": seconds, "share": seconds / (4 * MS),
            "rounding": 0.0, "device_seconds": 0.0, "allocated_bytes": 2048, "gflop_s": 1.5, "largest": "aten::addmm",
            **more}  # fmt: skip


PROFILE = Report("profile", (node_row("fc1", 0.0, 3 * MS), node_row("drop", 3 * MS, 0.2 * MS),
                             node_row("fc2", 3.5 * MS, 0.8 * MS)),
                 {"seconds": 5 * MS, "plain": 4 * MS, "runs": 5, "batch": 16, "device": "cpu", "weights_bytes": 384,
                  "peak_bytes": 4096, "about": ""})  # fmt: skip


TIMELINE = {
    "seconds": 5 * MS, "left_out": 0, "held": [[0.0, 0.0], [1 * MS, 4096.0], [4.5 * MS, 1024.0]],
    "spans": [["node", 0, "fc1", "fc1", 0.0, 3 * MS], ["node", 0, "drop", "drop", 3 * MS, 0.2 * MS],
              ["node", 0, "fc2", "fc2", 3.5 * MS, 0.8 * MS], ["operation", 1, "aten::addmm", "fc1", 0.5 * MS, 2 * MS],
              ["operation", 1, "aten::addmm", "fc2", 3.6 * MS, 0.5 * MS]],
}  # fmt: skip


def profiled(window: Window, runner: list[FakeRunner]) -> ProfilePage:
    page = profile(window)
    page.run()
    finish(runner, "profile", PROFILE, timeline=TIMELINE)
    return page


def test_a_profile_in_words_and_rows(small: Window, runner: list[FakeRunner]) -> None:
    page = profiled(small, runner)
    words = page.summary_label.text()
    assert "4" in words and "a run of 16 on cpu" in words and "4 000 samples" in words.replace("\u2009", " ")
    rows = page.table.rows.shown
    assert [r["node"] for r in rows] == ["fc1", "fc2", "drop"], "the slowest first"
    assert rows[0]["time (ms)"] == 3.0 and rows[0]["calls"] == 1 and "GPU (ms)" not in rows[0]
    assert page.timeline.run is not None and [lane.kind for lane in page.timeline.run.lanes] == ["node", "operation"]


@pytest.mark.slow
def test_nodes_are_selected_from_all_sides(small: Window, runner: list[FakeRunner]) -> None:
    page, session = profiled(small, runner), small.session
    view = page.timeline
    view.resize(600, 200)
    lane = next(lane for lane, _ in view.tops() if lane.kind == "node")
    top = next(top for held, top in view.tops() if held is lane)
    at = QPointF(NAMES + 3.9 / 5 * view.wide, top + 6.0)
    found = view.span_at(at)
    assert found is not None and found[1].nodes == ("fc2",)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=at.toPoint())
    assert session.selection == ("fc2",)
    assert page.table.selectionModel().selectedRows()[0].row() == 1
    session.select(("fc1",))
    assert view.marked == {"fc1"} and page.table.selectionModel().selectedRows()[0].row() == 0
    page.table.setCurrentIndex(page.table.rows.index(2, 0))
    assert session.selection == ("drop",) and view.marked == {"drop"}


def test_the_timeline_by_hand(small: Window, runner: list[FakeRunner]) -> None:
    page = profiled(small, runner)
    view, whole = page.timeline, page.timeline.whole
    wanted: list[str] = []
    view.node_wanted.connect(wanted.append)
    for _ in range(3):
        QTest.keyClick(view, Qt.Key.Key_Plus)
    assert view.seen.length < whole.length / 1.9
    QTest.keyClick(view, Qt.Key.Key_End)
    assert small.session.selection == ("fc2",) and view.seen.begin <= 3500 <= view.seen.end
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert small.session.selection == ("drop",)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert wanted == ["drop"]
    before = view.seen
    QTest.keyClick(view, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert view.seen.begin < before.begin and view.seen.length == pytest.approx(before.length)
    QTest.keyClick(view, Qt.Key.Key_0)
    assert view.seen == whole


def test_a_long_timeline_comes_from_a_thread(small: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    page = profile(small)
    spans = [["node", 0, "fc1", "fc1", k * 1e-6, 0.9e-6] for k in range(MANY)] + [["node", 0, "fc2", "fc2", 1.0, 0.5]]
    page.run()
    finish(runner, "profile", PROFILE, timeline={"seconds": 2.0, "spans": spans, "held": [], "left_out": 7})
    assert "omits the 7 smallest" in page.summary_label.text()
    qtbot.waitUntil(lambda: page.timeline.run is not None)
    assert page.timeline.run is not None and len(page.timeline.run.lanes[0].spans) == MANY + 1
    seen = visible_lane(page.timeline.run.lanes[0], 0.0, 2e6, 100)
    assert seen.codes[0] >= 0 and seen.codes[1] == -1, "a thousandth of the run is one column"
    assert seen.large.tolist() == [MANY] and seen.lefts.tolist() == [50.0] and seen.rights.tolist() == [75.0]


def test_the_timeline_as_files(small: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    view = profiled(small, runner).timeline
    view.set_theme(DARK)
    for name in ("t.png", "t.svg", "t.csv"):
        view.export(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    assert view.look is DARK, "pictures are light, the view stays as it was"
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert len(rows) == 5 and rows[0]["span"] == "fc1" and float(rows[0]["length (µs)"]) == pytest.approx(3000)


def test_the_graph_takes_the_colours(small: Window, runner: list[FakeRunner]) -> None:
    small.canvas.set_mode("time")
    small.canvas.mode_chosen.emit("time")  # by hand, as the legend's list does
    page = small.docks.panels["kernels"].prepared("Profile")  # type: ignore[attr-defined]
    assert page.state.job is not None, "what is not known is measured when it is chosen"
    assert page.overlay("time").note == "being measured"
    finish(runner, "profile", PROFILE, timeline=TIMELINE)
    overlay = page.overlay("time")
    assert overlay.values == pytest.approx({"fc1": 3.0, "drop": 0.2, "fc2": 0.8}) and overlay.note == ""
    assert page.overlay("memory").values["fc1"] == 2.0
    assert small.canvas._measured["time"] == overlay  # type: ignore[attr-defined]
    small.session.set_format(("fc1",), "weight", Integer(8, 4))
    assert page.overlay("time").note == OLD and OLD in page.summary_label.text()
    small.session.undo()
    assert page.overlay("time").note == ""


def test_the_trace_is_copied_while_it_is_there(small: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    from espalier.app.features.kernels import measurement_actions

    page = profile(small)
    page.run()
    assert not page.trace.isEnabled()
    place = tmp_path / "made.json"
    place.write_text('{"traceEvents": []}')
    finish(runner, "profile", replace(PROFILE, summary={**PROFILE.summary, "trace": str(place)}), timeline=TIMELINE)
    assert page.trace.isEnabled() and page.trace_file == place
    asked: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small.services.dialogs, "ask_path", lambda title, then, **more: asked.append(then))
        measurement_actions.save_trace(small.host, page)
    asked[0](tmp_path / "saved")
    assert json.loads((tmp_path / "saved.json").read_text()) == {"traceEvents": []}
    place.unlink()
    page.refresh()
    assert not page.trace.isEnabled() and "not the trace" in page.trace.toolTip()


def test_a_project_keeps_what_was_measured(small: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    page, document = profiled(small, runner), small.session.open_document
    saved = tmp_path / "p.espalier"
    save_project(document.snapshot(), document.store, saved)
    for job in list(runner[-1].waiting):  # what kernels there are
        runner[-1].tell(job, Stopped())
    open_small(small, runner, load_project(saved, WeightStore(tmp_path / "store")))
    assert page.state.result is not None and not page.state.stale
    assert [r["node"] for r in page.table.rows.shown] == ["fc1", "fc2", "drop"] and page.timeline.run is not None
    spoiled = replace(small_project(), extras={"profile.json": b"{}"})
    open_small(small, runner, spoiled)
    assert page.state.result is None and "cannot be read" in page.error.text() and page.timeline.run is None
