"""The tabs Compile, Profile and Memory: settings that reach the job, what comes of it, node ↔ span ↔ row, files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.charts.compile_payback import EACH, Calls, break_even
from espalier.app.features.kernels.charts.run_lanes import visible_lane
from espalier.app.features.kernels.compile import MODULE, SELECTED, CompilePage, inconclusive
from espalier.app.features.kernels.measurement_actions import measure
from espalier.app.features.kernels.measurement_tab import OLD, MeasurementTab
from espalier.app.features.kernels.memory import MemoryPage
from espalier.app.features.kernels.profile import MANY, ProfilePage
from espalier.app.features.kernels.profile_canvas import NAMES
from espalier.app.features.kernels.state.measurement import Measurement, from_bytes
from espalier.app.figures.facts import node_facts
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.window import Window
from espalier.app.theme import DARK
from espalier.kernels.bench.spec import Lab
from espalier.model.document.codec import encode
from espalier.model.document.project import load_project, save_project
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.meta import Precision
from espalier.model.registry import PASSES
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.compile import CompileOptions
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Failed, Found, Started, Stopped
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui
MS = 1e-3


def job_of(runner: list[FakeRunner], name: str) -> Any:
    """The waiting job of an analysis."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name)


def finish(runner: list[FakeRunner], name: str, report: Report, **more: Any) -> None:
    """Let the job of an analysis end as the worker would."""
    from espalier.passes.jobs.kinds import Done

    info = job_of(runner, name)
    for event in (Started(), Found(more), Done(report)):
        runner[-1].tell(info, event)


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
CALLS = {"eager": {"first": 0.004, "later": [0.003, 0.002, 0.0025]},
         "captured": {"first": 0.5, "later": [0.002, 0.002, 0.0021]},
         "compiled": {"first": 2.004, "later": [0.0012, 0.001, 0.0011]}}  # fmt: skip


def compile_report(**more: Any) -> Report:
    rows = tuple({"version": n, "first": c["first"], "seconds": sorted(c["later"])[1], "least": min(c["later"]),
                  "spread": 0.1, "calls": 3, "speedup": 0.002 / min(c["later"])} for n, c in CALLS.items())  # fmt: skip
    summary = {"graphs": 2, "breaks": "a; b", "break_even_calls": 2001, "speedup": 2.0, "compile_seconds": 2.0,
               "max_error": 1e-6, "products_share": 0.4, "operations": 7, "backend": "inductor", "mode": "default",
               "device": "cpu", "part": "", "why": "Compiled code takes 50% of the eager time.", **more}  # fmt: skip
    return Report("compile", rows, summary)


def memory_report(held: int) -> Report:
    def line(name: str, kind: str, elements: int, ideal: float, size: int) -> dict[str, Any]:
        plain = 4 * elements
        return {"line": name, "kind": kind, "elements": elements, "float_bytes": plain, "ideal": ideal, "bytes": size,
                "saving": 1 - size / plain if plain else None}  # fmt: skip

    rows = (line("codes of mxint8/32", "codes", 64, 64.0, 64), line("exponents and scales", "shared", 0, 0.0, 2),
            line("model in memory", "measured", 96, 0.0, held),
            line("most in a run beside", "measured", 0, 0.0, 100))  # fmt: skip
    return Report("memory", rows, {"float_bytes": 384, "file_bytes": 66, "saving": 1 - 66 / 384, "about": "",
                                   "saving_of_formats": 0.742, "share_in_formats": 0.67, "gains": "",
                                   "model_in_memory": held, "most_in_a_run_beside": 100})  # fmt: skip


GAINS = [["The embeddings hold much.", 99, "quantize", ["fc2"]], ["A run takes much.", 50, "", []]]


@pytest.fixture
def small(window: Window, runner: list[FakeRunner]) -> Window:
    """The window with the small model, without measuring by itself."""
    window.live.enabled = False
    open_small(window, runner)
    return window


def profile(window: Window) -> ProfilePage:
    page = panel_of(window.host).page("Profile")
    assert isinstance(page, ProfilePage)
    return page


def profiled(window: Window, runner: list[FakeRunner]) -> ProfilePage:
    page = profile(window)
    page.run()
    finish(runner, "profile", PROFILE, timeline=TIMELINE)
    return page


def compiling(window: Window) -> CompilePage:
    page = panel_of(window.host).page("Compile")
    assert isinstance(page, CompilePage)
    return page


def counting(window: Window) -> MemoryPage:
    page = panel_of(window.host).page("Memory")
    assert isinstance(page, MemoryPage)
    return page


# -- shared


def test_nothing_is_built_before_it_is_seen(small: Window, runner: list[FakeRunner]) -> None:
    panel = small.docks.panels["kernels"]
    assert not panel.pages  # type: ignore[attr-defined]
    page = profile(small)
    assert list(panel.pages) == ["Profile"]  # type: ignore[attr-defined]
    assert page._pages.currentIndex() == 1 and "Not profiled yet" in page._empty.text()
    assert not [j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob)]


def test_without_a_model_a_page_invites(window: Window) -> None:
    page = profile(window)
    assert page._pages.currentIndex() == 0
    page.run()
    assert page.state.job is None


def test_settings_reach_the_job_and_it_can_be_stopped(small: Window, runner: list[FakeRunner]) -> None:
    page = profile(small)
    page.form.put(ProfileOptions(batch_size=3, runs=7))
    page.run_button.setFocus()
    QTest.mouseClick(page.run_button, Qt.MouseButton.LeftButton)
    assert page.focusWidget() is page.stop_button  # not whatever comes next in the window
    job = job_of(runner, "profile")
    options = job.job.step.options
    assert (options.batch_size, options.runs, options.device) == (3, 7, "cpu")
    assert options.trace.startswith(str(small.session.open_document.store.folder))
    assert page.stop_button.isVisible() and not page.run_button.isEnabled()
    page.run()  # another does not begin
    assert len([j for j in runner[-1].waiting if j.title == "Profile"]) == 1
    QTest.mouseClick(page.stop_button, Qt.MouseButton.LeftButton)
    assert page.state.job is None and page.status.text() == "Stopped." and page.run_button.isEnabled()


def test_what_goes_wrong_is_told_on_the_page(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    page.run()
    info = job_of(runner, "compile")
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("The model could not be compiled: boom.", "Choose another backend.", "fc1"))
    assert "boom" in page.error.text() and page.error.isVisible() and page.show_node.isVisible()
    QTest.mouseClick(page.show_node, Qt.MouseButton.LeftButton)
    assert small.session.selection == ("fc1",)
    page.run()
    assert not page.error.isVisible()
    runner[-1].tell(job_of(runner, "compile"), Stopped())


def test_a_wrong_setting_is_told(small: Window, runner: list[FakeRunner]) -> None:
    page, told = profile(small), list[Any]()
    small.session.problem.connect(told.append)
    page.form.editors["batch_size"].setText("0")
    page.form.editors["batch_size"].textEdited.emit("0")
    page.run()
    assert told and page.state.job is None and page.form.wrong.text()


def test_a_device_that_is_not_here_says_why(small: Window, runner: list[FakeRunner]) -> None:
    from espalier.app.features.kernels.state.runs import kernel_runs_of

    page = profile(small)
    held = kernel_runs_of(small.session)
    held.lab = Lab(kernels=(), machines={}, missing={"cuda": "no CUDA device"})
    held.lab_changed.emit()
    model = page.form.editors["device"].model()
    assert isinstance(model, QStandardItemModel)
    at = page.form.editors["device"].values.index("cuda")
    assert not model.item(at).isEnabled()
    assert page.form.editors["device"].itemData(at, Qt.ItemDataRole.ToolTipRole) == "no CUDA device"


# -- profile


def test_a_profile_in_words_and_rows(small: Window, runner: list[FakeRunner]) -> None:
    page = profiled(small, runner)
    words = page.summary_label.text()
    assert "4" in words and "a run of 16 on cpu" in words and "4 000 samples" in words.replace("\u2009", " ")
    rows = page.table.rows.shown
    assert [r["node"] for r in rows] == ["fc1", "fc2", "drop"], "the slowest first"
    assert rows[0]["time (ms)"] == 3.0 and rows[0]["calls"] == 1 and "GPU (ms)" not in rows[0]
    assert page.timeline.run is not None and [lane.kind for lane in page.timeline.run.lanes] == ["node", "operation"]


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


def test_a_project_whose_figures_lack_some_says_so(small: Window, runner: list[FakeRunner]) -> None:
    pages = [panel_of(small.host).page(title) for title in ("Compile", "Profile", "Memory")]
    for rows in ('[{"x": 1}]', "[]"):
        text = f'{{"version": 1, "options": {{}}, "rows": {rows}, "summary": {{}}, "more": {{}}, "mark": ""}}'
        members = ("compile.json", "profile.json", "memory.json")
        for job in list(runner[-1].waiting):  # what kernels there are
            runner[-1].tell(job, Stopped())
        open_small(small, runner, replace(small_project(), extras=dict.fromkeys(members, text.encode())))
        for page in pages:
            assert isinstance(page, MeasurementTab) and page.state.result is None
            assert "cannot be read" in page.error.text()


# -- compile


def test_a_ratio_of_an_earlier_project_is_the_speedup() -> None:
    row = dict.fromkeys(["version", "first", "seconds", "spread", "least", "calls"], 1) | {"ratio": 1.5}
    names = "break_even_calls compile_seconds max_error graphs backend mode device why operations products_share"
    data = {"version": 1, "options": encode(CompileOptions()), "rows": [row], "more": {}, "mark": "",
            "summary": dict.fromkeys(names.split(), 1) | {"ratio": 2.5}}  # fmt: skip
    made = from_bytes(json.dumps(data).encode(), CompileOptions, "compile")
    assert made.summary["speedup"] == 2.5 and made.rows[0]["speedup"] == 1.5 and "ratio" not in made.summary


def test_a_part_is_what_was_chosen(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    model = page.part.model()
    assert isinstance(model, QStandardItemModel)
    assert not model.item(1).isEnabled() and "No node" in page.part.itemData(1, Qt.ItemDataRole.ToolTipRole)
    small.session.select(("fc1", "fc2"))
    assert model.item(1).isEnabled() and page.part.itemText(1) == "the selected 2 nodes"
    for way, part in ((SELECTED, "fc1, fc2"), (MODULE, "drop"), ("", "")):
        page.part.put(way)
        page._offer_part()
        page.module.setText("drop")
        assert page.module.isVisibleTo(page) == (way == MODULE) and page.options().part == part
    page.part.put(MODULE)
    page.module.setText(" ")
    told: list[Any] = []
    small.session.problem.connect(told.append)
    page.run()
    assert "No module" in str(told[0]) and page.state.job is None


def test_a_missing_compiler_is_told(small: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    from espalier.app.features.kernels import compile as kernels_compile

    monkeypatch.setattr(kernels_compile, "has_compiler", lambda: False)
    page = compiling(small)
    backend = page.form.editors["backend"]
    at = backend.values.index("inductor")
    model = backend.model()
    assert isinstance(model, QStandardItemModel) and not model.item(at).isEnabled()
    assert page.lacking.isVisibleTo(page) and "apt install g++" in page.lacking.text()
    assert "C++ compiler" in backend.itemData(at, Qt.ItemDataRole.ToolTipRole) and backend.get() != "inductor"
    assert not page.form.editors["mode"].isEnabled(), "modes are of inductor"


def test_compiling_is_told_call_by_call(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    page.run()
    finish(runner, "compile", compile_report(), calls=CALLS, breaks=["a (forward, line 3)", "b"])
    words = page.summary_label.text()
    assert "2 × as fast as eager" in words and "2\u2009001 calls" in words and "2 graphs" in words
    assert [r["version"] for r in page.versions.rows.shown] == list(CALLS)
    assert page.versions.rows.shown[2]["first (ms)"] == 2004.0
    calls = page.calls.rows.shown
    assert [r["call"] for r in calls] == [1, 2, 3, 4] and calls[0]["compiled (ms)"] == 2004.0
    assert "forward, line 3" in page.why.text() and "50% of the eager" in page.why.text()
    assert page.chart.even == pytest.approx(2001) and "2\u2009001 calls" in page.chart.legend()
    assert "after 5 calls\neager: 12" in page.chart.tooltip_at(5.2)
    page.kind.put(EACH)
    page.kind.edited.emit()
    assert page.chart.reach == 4 and "captured" in page.chart.legend()
    assert "call 1, the first" in page.chart.tooltip_at(1) and "2\u2009s" in page.chart.tooltip_at(1)
    assert len(page.chart.table()[1]) == 12


def test_times_that_scatter_give_no_verdict(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    page.run()
    assert "seconds to minutes" in page._empty.text() and "Not compiled" not in page._empty.text()
    held = compile_report()
    finish(runner, "compile", held, calls=CALLS)
    assert "✓" in page.summary_label.text() and "scatter" not in page.summary_label.text()
    page.run()
    noisy = replace(held, rows=tuple({**r, "seconds": 0.8, "spread": 0.3} for r in held.rows))
    finish(runner, "compile", noisy, calls=CALLS)
    assert (
        "✓" not in page.summary_label.text()
        and "2 × as fast as eager, inconclusive: times vary" in page.summary_label.text()
    )
    apart = [{**r, "spread": 0.3, "seconds": s} for r, s in zip(held.rows, (9.0, 2.0, 1.0), strict=True)]
    assert not inconclusive(apart)  # no scatter makes these alike


def test_where_lines_cross() -> None:
    eager, compiled = Calls("eager", 1.0, (0.5, 0.4)), Calls("compiled", 3.0, (0.3, 0.2))
    even = break_even(eager, compiled)
    assert even == pytest.approx(11) and eager.summed(even) == pytest.approx(compiled.summed(even))
    assert break_even(compiled, eager) is None
    assert break_even(Calls("eager", 9.0, (0.5,)), compiled) == 1.0


# -- memory


def test_the_ledger_and_ways_to_save_more(small: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    page, asked = counting(small), list[str]()
    page.pass_wanted.connect(asked.append)
    page.run()
    finish(runner, "memory", memory_report(384), gains=GAINS)
    assert "as much as float32" in page.summary_label.text() and "74.2" in page.summary_label.text()
    assert page.table.rows.shown[0]["line"] == "codes of mxint8/32"
    assert "saves 75.0" in page.chart.tooltip_at(3) and page.chart.tooltip_at(9) == ""
    assert page.pages.tabs.tabText(1) == "Save more 2"
    act = next(b for b in page.findChildren(QPushButton) if b.text() == "Quantise…")
    act.click()
    assert asked == ["quantize"] and small.session.selection == ("fc2",)
    for name in ("m.png", "m.svg", "m.csv"):
        page.chart.export(tmp_path / name)
    assert len((tmp_path / "m.csv").read_text().splitlines()) == 5


def test_what_an_edit_gained_is_told(small: Window, runner: list[FakeRunner]) -> None:
    page = counting(small)
    page.run()
    finish(runner, "memory", memory_report(384_000), gains=GAINS)
    page.run()
    finish(runner, "memory", memory_report(384_000), gains=GAINS)
    assert page.state.before is None, "the same model again is no change"
    small.session.set_format(("fc1",), "weight", Integer(8, 4))
    assert OLD in page.summary_label.text()
    page.run()
    finish(runner, "memory", memory_report(96_000), gains=[])
    assert "since the edit" in page.summary_label.text() and "93.8" in page.summary_label.text()
    assert page.table.rows.shown[2]["before (KiB)"] == 375.0 and page.pages.tabs.tabText(1) == "Save more"


# -- menus


@pytest.mark.parametrize("name", ["compile", "profile", "memory"])
def test_menus_begin_each(small: Window, runner: list[FakeRunner], name: str) -> None:
    row = next(r for r in small.actions_table.rows if r.id == f"timed_{name}")
    assert row.menu == "Run" and row.help
    if name == "compile":
        compiling(small).form.editors["backend"].put("aot_eager")
    measure(small.host, name)
    job_of(runner, name)
    held = small.docks.panels["kernels"].prepared(name.capitalize()).state  # type: ignore[attr-defined]
    assert isinstance(held, Measurement) and held.job is not None
    assert not small.docks.docks["kernels"].visibleRegion().isEmpty()


def test_mx_weights_stand_under_deploy(small: Window) -> None:
    row = next(r for r in small.actions_table.rows if r.id == "pack_mx")
    assert (row.menu, row.section) == ("Model", "Deploy") and "packed" in row.help
    spec = PASSES.get("pack_mx")
    assert default_options(small.session, spec).width == "8", "nothing is in mxint yet"
    small.session.set_format(("fc1",), "weight", MXInt(8, 8))
    assert default_options(small.session, spec).width == "as it is"


def test_a_packed_weight_says_what_it_takes(small: Window) -> None:
    graph = small.session.open_document.graph
    plain = {f.name for f in node_facts(graph["fc1"], graph)}
    held = replace(graph["fc1"], packed=True, precision={"weight": Precision(MXInt(8, 8))})
    facts = {f.name: f.value for f in node_facts(held, graph.replace(held))}
    assert "in memory" not in plain and facts["in memory"].replace("\u2009", " ") == "0.1 KiB of 0.2 KiB"
