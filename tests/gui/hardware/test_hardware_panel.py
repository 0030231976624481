"""The panel Hardware: runs as jobs, its words, the text, and node ↔ instance ↔ module in both directions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtTest import QTest

from espalier.app.features.hardware.actions import panel_of
from espalier.app.features.hardware.panel import HardwarePanel
from espalier.app.features.hardware.run_text import verdicts
from espalier.app.features.hardware.state.overlays import overlay
from espalier.app.features.hardware.views import LINT, MISMATCHES, SOURCE
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.shell.window import Window
from espalier.model.document.project import Project
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Failed, Progress, Started, Stopped
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui

TOP = """// top: generated; change the graph, not this file.
module top (
    input  logic clk
);
  logic [7:0] fc1_y_data;

  // fc1: 8, 8 × 8
  linear #(
      .IN_SIZE(8)
  ) u_fc1 (
      .clk(clk)
  );

  // fc2: 4, 4 × 8
  linear #(
      .IN_SIZE(8)
  ) u_fc2 (
      .clk(clk)
  );
endmodule
"""
LINEAR = """// linear: y = x
module linear #(parameter int IN_SIZE = 1) (input logic clk);
  localparam int SIZE = 8'hFF; // 12
endmodule
"""
ROWS = (
    {"node": "fc1", "instance": "fc1", "module": "linear", "stream": "8 × 8", "cycles": 64, "busy": 1.0, "waits": None},
    {"node": "fc1", "instance": "fc1_fifo", "module": "fifo", "stream": "8", "cycles": 8, "busy": 0.0, "waits": 3},
    {"node": "fc2", "instance": "fc2", "module": "linear", "stream": "4 × 8", "cycles": 32, "busy": 0.5, "waits": None},
)
WRONG = {"stream": "fc2_y", "node": "fc2", "sample": 1, "beat": 2, "cycle": 77, "expected": [3, -4], "got": [3, 4]}


def quantised() -> Project:
    """The small model with a format at its layers."""
    project = small_project("some.csv")
    chosen = {"data_in": Precision(Integer(8, 4)), "weight": Precision(Integer(8, 6))}
    graph = project.graph.replace(*(replace(n, precision=chosen) for n in project.graph if n.op == "linear"))
    return replace(project, graph=graph, base=graph)


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> HardwarePanel:
    """The dock of a window with the quantised model, in front."""
    window.live.enabled = False
    open_small(window, runner, quantised())
    return panel_of(window.host)


def report(folder: Path, **more: Any) -> Report:
    """What the worker would tell; its files are written."""
    (folder / "rtl").mkdir(exist_ok=True)
    (folder / "top.sv").write_text(TOP)
    (folder / "rtl" / "linear.sv").write_text(LINEAR)
    summary = {"modules": ["fifo", "linear"], "instances": 3, "folder": str(folder), "interval": 64.0, "cycles": 99,
               "files": ["rtl/linear.sv", "top.sv"], "first": 80, "bottleneck": "fc1",
               "lint": {"tools": ["verilator", "slang"], "findings": []}, **more}  # fmt: skip
    return Report("hardware", ROWS, summary)


def check(panel: HardwarePanel, runner: list[FakeRunner], folder: Path, verb: str = "check", **more: Any) -> None:
    panel.run(verb)
    runner[-1].finish(report(folder, **more))


def selected(panel: HardwarePanel) -> list[str]:
    return [r["instance"] for r in panel.views.tree.rows()]


def test_nothing_quantised_says_what_to_do(window: Window, runner: list[FakeRunner]) -> None:
    panel = panel_of(window.host)
    assert "Open a model" in panel._about.text() and not panel._quantise.isVisible()
    window.live.enabled = False
    open_small(window, runner)
    window.show_dock("hardware")
    assert "fixed point" in panel._about.text() and panel._quantise.isVisible()
    assert panel._pages.currentIndex() == 0


def test_settings_reach_the_job(panel: HardwarePanel, runner: list[FakeRunner], window: Window) -> None:
    document = window.session.document
    assert document is not None and panel.form.value().data == "some.csv"
    panel.form.put(HardwareOptions(name="chip", samples=5, stalls=False, simulator="icarus"))
    panel.run("simulate")
    job = runner[-1].waiting[0].job
    assert isinstance(job, AnalyseJob) and job.graph is document.graph
    wish = job.step.options
    assert (wish.name, wish.samples, wish.stalls, wish.simulator, wish.simulate) == ("chip", 5, False, "icarus", True)
    assert Path(wish.folder) == document.store.folder / "hardware" / "chip"
    runner[-1].tell(runner[-1].waiting[0], Stopped())
    panel.run("emit", "/some/where")
    assert runner[-1].waiting[0].job.step.options.folder == "/some/where"


def test_a_run_tells_its_progress_and_can_be_stopped(panel: HardwarePanel, runner: list[FakeRunner]) -> None:
    panel.run("check")
    info = runner[-1].waiting[0]
    assert "Queued" in panel._status.text() and panel.buttons["stop"].isVisible()
    assert not panel.buttons["check"].isEnabled()
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(1, 4, "checking the text"))
    assert panel._status.text() == "Checking the text …"
    panel.buttons["stop"].click()
    assert panel._status.text() == "Stopped." and not panel.buttons["stop"].isVisible()
    assert panel.buttons["check"].isEnabled() and panel.hardware.result is None


def test_a_failure_names_the_node(panel: HardwarePanel, runner: list[FakeRunner], window: Window) -> None:
    panel.run("check")
    runner[-1].tell(runner[-1].waiting[0], Failed("data_out of fc2 has no format.", "Choose one.", "fc2"))
    assert "no format. Choose one." in panel._error.text() and panel._show_node.isVisible()
    assert window.banner.isHidden(), "the panel tells it itself"
    panel._show_node.click()
    assert window.session.selection == ("fc2",)
    panel.run("check")
    assert not panel._error.isVisible(), "tried again"


def test_node_instance_and_text_lead_to_each_other(
    panel: HardwarePanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    check(panel, runner, tmp_path)
    session, tree, source = window.session, panel.views.tree, panel.views.source
    assert source.file == "top.sv" and source.text.toPlainText() == TOP
    session.select(("fc1",))
    assert selected(panel) == ["fc1", "fc1_fifo"] and source.file == "rtl/linear.sv", "its own module, not its FIFO's"
    source.show_file("top.sv")
    session.select(("fc2",))
    assert selected(panel) == ["fc2"] and source.file == "rtl/linear.sv", "the module of the node"
    top = tree.topLevelItem(0)
    assert top is not None
    # Without flags Qt asks for the keys that an earlier test may have left pressed, and Ctrl adds to a selection.
    only = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
    tree.setCurrentItem(top.child(0), 0, only)
    assert session.selection == ("fc1",) and selected(panel) == ["fc1"], "one of the node's two stays chosen"
    tree.setCurrentItem(top, 0, only)
    assert source.file == "top.sv"
    panel._find_instance("fc2")
    assert source.text.textCursor().block().text() == "  ) u_fc2 ("
    text = source.text
    text.ensureCursorVisible()
    QTest.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=text.cursorRect().center())
    assert session.selection == ("fc2",) and selected(panel) == ["fc2"] and source.file == "top.sv"
    source.choice.put("rtl/linear.sv")
    source.choice.edited.emit()
    assert set(session.selection) == {"fc1", "fc2"} and source.text.toPlainText() == LINEAR


NESTED = {
    "linear": """module linear #(parameter int IN_SIZE = 1) (input logic clk);

  for (genvar i = 0; i < 2; i++) begin : g_out
    operands #(.W(8)) u_operands (
        .clk(clk)
    );
  end
endmodule
""",
    "operands": "module operands #(parameter int W = 1) (input logic clk);\n  walk u_walk (.clk(clk));\nendmodule\n",
    "walk": "module walk (input logic clk);\n  linear u_again (.clk(clk));\nendmodule\n",
}


def nested(panel: HardwarePanel, runner: list[FakeRunner], folder: Path) -> None:
    """A check whose linear is made of other modules, one of which wrongly holds a linear again."""
    made = report(folder, modules=["fifo", *NESTED], files=["top.sv", *(f"rtl/{m}.sv" for m in NESTED)])
    for module, text in NESTED.items():
        (folder / "rtl" / f"{module}.sv").write_text(text)
    panel.run("check")
    runner[-1].finish(made)


def test_what_is_inside_a_module_leads_to_its_text_and_back(
    panel: HardwarePanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    nested(panel, runner, tmp_path)
    session, tree, source = window.session, panel.views.tree, panel.views.source
    top = tree.topLevelItem(0)
    assert top is not None and not top.child(2).childCount(), "put in when it is opened"
    tree.expandItem(top.child(2))
    part = top.child(2).child(0)
    assert (part.text(0), part.text(1), top.child(2).childCount()) == ("u_operands", "operands", 1)
    tree.setCurrentItem(part)
    assert source.file == "rtl/operands.sv" and session.selection == ("fc2",)
    tree.itemDoubleClicked.emit(part, 0)
    assert source.file == "rtl/linear.sv" and source.text.textCursor().blockNumber() == 3
    tree.expandItem(part)
    tree.setCurrentItem(part.child(0))
    assert source.file == "rtl/walk.sv"
    source.text.clicked.emit("", 2)
    assert tree.currentItem().text(0) == "u_again", "a module that holds itself is no end"
    session.select(("fc1",))
    source.text.clicked.emit("", 5)
    found = tree.currentItem()
    assert found.text(0) == "u_operands" and found.parent() is top.child(0) and session.selection == ("fc1",)
    source.show_file("rtl/operands.sv")
    source.text.clicked.emit("", 2)
    assert tree.currentItem().parent() is found and source.file == "rtl/operands.sv"
    source.text.clicked.emit("", 1)
    assert tree.currentItem().text(0) == "u_walk", "where nothing stands it stays"


def test_proofs_in_words(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    check(panel, runner, tmp_path)
    made = panel.hardware.result
    assert made is not None and verdicts(made) == [("good", "✓ lint: clean by verilator and slang"),
                                                   ("same", "not simulated yet")]  # fmt: skip
    assert "every 64 cycles" in panel._summary.text() and "fc1 (100" in panel._summary.text()
    ran = {"simulator": "icarus", "samples": 4, "stuck": False, "first_mismatches": [], "mismatches": 0}
    check(panel, runner, tmp_path, "simulate", **ran)
    assert panel.hardware.result and verdicts(panel.hardware.result)[1] == (
        "good",
        "✓ matches in every beat, 4 samples in Icarus",
    )
    finding = {"lint": {"tools": ["slang"], "findings": ["rtl/linear.sv:3: unused: SIZE"]}}
    check(panel, runner, tmp_path, "simulate", **{**ran, "mismatches": 2, "first_mismatches": [WRONG]}, **finding)
    said = verdicts(panel.hardware.result)
    assert [tone for tone, _ in said] == ["bad", "bad"] and "2 beats differ" in said[1][1]
    assert panel.views.tabs.currentIndex() == MISMATCHES and panel.views.tabs.tabText(MISMATCHES) == "Mismatches 1"
    row = panel.views.mismatches.rows.shown[0]
    assert (row["expected"], row["got"], row["cycle"]) == ("3 −4", "3 4", 77)
    panel.views.tabs.setCurrentIndex(LINT)
    panel.views.lint.selectRow(0)
    assert panel.views.tabs.currentIndex() == SOURCE and panel.views.source.file == "rtl/linear.sv"
    assert panel.views.source.text.textCursor().blockNumber() == 2 and panel.views.source.text.marks == {
        3: "unused: SIZE"
    }


def test_a_mismatch_leads_to_its_node(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path,
                                      window: Window) -> None:  # fmt: skip
    more = {"simulator": "icarus", "samples": 4, "stuck": False, "mismatches": 1, "first_mismatches": [WRONG]}
    check(panel, runner, tmp_path, "simulate", **more)
    panel.views.mismatches.selectRow(0)
    assert window.session.selection == ("fc2",)


def test_the_graph_takes_its_colours(
    panel: HardwarePanel, runner: list[FakeRunner], window: Window, tmp_path: Path
) -> None:
    assert overlay(panel.hardware, "busy").note == "check the hardware first"
    check(panel, runner, tmp_path)
    assert (
        overlay(panel.hardware, "busy").values == {"fc1": 1.0, "fc2": 0.5}
        and overlay(panel.hardware, "busy").unit == "share"
    )
    assert overlay(panel.hardware, "cycles").values == {"fc1": 64.0, "fc2": 32.0}
    panel.views.colour.emit("cycles")
    assert window.canvas.mode == "cycles" and window.canvas._measured["cycles"].values["fc1"] == 64.0
    window.session.set_format(("fc1",), "weight", Integer(4, 2))
    assert panel.hardware.stale and "earlier state" in panel._summary.text()
    assert window.appearance.palette.good not in panel._summary.text(), "no green verdict on another model"
    assert window.canvas._measured["cycles"].note == "of an earlier state"
    window.session.close()
    assert panel.hardware.result is None and not window.canvas._measured["cycles"].values


def test_the_text_is_coloured_and_searched(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    check(panel, runner, tmp_path)
    source = panel.views.source
    source.show_file("rtl/linear.sv")
    line = source.text.document().findBlockByNumber(2)
    kept = line.layout().formats()
    at = {line.text()[f.start : f.start + f.length]: f.format.foreground().color().name() for f in kept}
    assert "localparam" in at and "8'hFF" in at and "// 12" in at, "a number in a comment is comment"
    assert len({at[part] for part in ("localparam", "8'hFF", "// 12")}) == 3
    source.text.setFocus()
    QTest.keyClick(source.text, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert source.window().focusWidget() is source.finder.query
    source.finder.query.setText("linear")
    first = source.text.textCursor().position()
    QTest.keyClick(source.finder.query, Qt.Key.Key_Return)
    assert source.text.textCursor().position() > first
    QTest.keyClick(source.finder.query, Qt.Key.Key_Return)
    assert source.text.textCursor().position() == first, "round at the end"
    source.finder.query.setText("nowhere")
    assert source.finder.message.text() == "not found"


def test_parallelism_is_edited_in_the_inspector(panel: HardwarePanel, window: Window, runner: list[FakeRunner]) -> None:
    inspector, session = window.docks.panels["inspector"], window.session
    assert isinstance(inspector, InspectorPanel)
    session.select(("drop",))
    assert inspector.parallel.isHidden(), "computed whole"
    session.select(("fc1",))
    assert not inspector.parallel.isHidden()
    for name, value in (("inputs", "4"), ("outputs", "2")):
        field = inspector.parallel.fields[name]
        field.selectAll()
        QTest.keyClicks(field, value)
        QTest.keyClick(field, Qt.Key.Key_Return)
    step = session.recipe.steps[-1]
    assert step.pass_name == "parallelize" and len(session.recipe) == 1, "one step for one node"
    assert (step.options.inputs, step.options.outputs, step.options.select.values) == (4, 2, ("fc1",))
    session.select(("fc1", "fc2"))
    field = inspector.parallel.fields["inputs"]
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert len(session.recipe) == 1 and "whole number" in window.banner.text
    assert field.text() == "1", "as the graph has it"


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is missing")
def test_the_pass_gives_what_the_panel_shows(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    """The keys of the report are those that the panel reads: a real run of the pass, handed over as the worker does."""
    from espalier.model.document.recipe import Step
    from espalier.model.opening import open_any
    from espalier.passes.base import Context, run_step

    opened = open_any("demo:digits-mlp", tmp_path / "store")
    chosen = {
        "data_in": Precision(Integer(8, 4)),
        "weight": Precision(Integer(8, 6)),
        "bias": Precision(Integer(12, 8)),
    }
    base = opened.project.base
    graph = base.replace(*(replace(n, precision=chosen) for n in base if n.op == "linear"))
    options = HardwareOptions(folder=str(tmp_path / "out"), simulate=True, simulator="icarus", samples=2, stalls=False)
    made = run_step(graph, Step("hardware", options), Context(opened.store)).report
    panel.run("simulate")
    runner[-1].finish(made)
    assert "matches in every beat" in panel._summary.text() and "does not" not in panel._summary.text()
    assert panel.views.source.file == "top.sv" and "module top" in panel.views.source.text.toPlainText()
    assert overlay(panel.hardware, "cycles").values["fc1"] == 64 * 64
