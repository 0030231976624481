"""Edited copies of hardware modules: stored in the project, checked while typing, used, reverted."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.hardware import source as source_module
from espalier.app.features.hardware.actions import panel_of
from espalier.app.features.hardware.panel import HardwarePanel
from espalier.app.features.hardware.run_text import verdicts
from espalier.app.features.hardware.state import edited_modules
from espalier.app.shell.window import Window
from espalier.app.widgets.source.source_text import Mark
from espalier.model.document.project import load_project, save_project
from espalier.model.errors import OptionsError
from espalier.model.store.weights import WeightStore
from espalier.passes.jobs.kinds import AnalyseJob
from espalier.verilog.rtl.edited_modules import MEMBER, from_bytes, texts_in
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.hardware.test_hardware_panel import LINEAR, check, nested, quantised
from tests.patience import PATIENCE

pytestmark = pytest.mark.gui
FILE = "rtl/linear.sv"


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HardwarePanel:
    """The dock after a check, with the library's `linear` as the test's own text."""
    built_in = lambda module: LINEAR if module == "linear" else None  # noqa: E731
    for module in (edited_modules, source_module):
        monkeypatch.setattr(module, "built_in", built_in)
    window.live.enabled = False
    open_small(window, runner, quantised())
    panel = panel_of(window.host)
    check(panel, runner, tmp_path)
    panel.views.source.show_file(FILE)
    return panel


def begin(panel: HardwarePanel) -> None:
    panel.views.source.edit.click()
    assert panel.views.source.text.editable


def put(panel: HardwarePanel, before: str, after: str) -> None:
    """Type over the first place that holds `before`."""
    text = panel.views.source.text
    text.moveCursor(text.textCursor().MoveOperation.Start)
    assert text.find(before)
    QTest.keyClicks(text, after)


@pytest.mark.slow
def test_only_the_library_is_edited(panel: HardwarePanel) -> None:
    source = panel.views.source
    assert source.edit.isEnabled() and not source.text.editable
    source.show_file("top.sv")
    assert not source.edit.isEnabled() and "Generated from the graph and its weights" in source.edit.toolTip()


@pytest.mark.slow
def test_a_copy_is_kept_undone_and_reverted(panel: HardwarePanel, window: Window) -> None:
    source, copies = panel.views.source, panel.hardware.copies
    assert not panel.hardware.stale
    begin(panel)
    assert copies.texts == {} and not panel.hardware.stale, "an unchanged copy has no effect"
    put(panel, "12", "13")
    assert "13" in copies.texts["linear"] and panel.hardware.stale and "earlier state" in panel._summary.text()
    QTest.keyClick(source.text, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(source.text, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert copies.modules["linear"].text == LINEAR and not panel.hardware.stale
    put(panel, "12", "14")
    source.show_file("top.sv")
    assert not source.text.editable
    source.show_file(FILE)
    assert source.text.editable and "14" in source.text.toPlainText(), "what was typed is there again"
    source._check()
    assert "1 line changed" in source.state.text() and "edited" in source.choice.currentText()
    source.compare.click()
    assert "+  localparam int SIZE = 8'hFF; // 14" in source.text.toPlainText() and not source.text.editable
    source.compare.click()
    assert source.text.editable
    copies.write()
    document = window.session.document
    assert document is not None and document.dirty and "14" in texts_in(document.project.extras)["linear"]
    source.revert.click()
    assert not source.text.editable and source.text.toPlainText() == LINEAR and not copies.modules
    source.restore.click()
    assert "14" in copies.texts["linear"] and source.text.editable
    assert source.text.toPlainText() == copies.texts["linear"]  # the next key writes into it
    copies.revert("linear")
    copies.write()
    assert MEMBER not in document.project.extras


@pytest.mark.slow
def test_a_copy_reverted_while_its_changes_are_shown_shows_ours(panel: HardwarePanel) -> None:
    source = panel.views.source
    begin(panel)
    put(panel, "12", "14")
    source.compare.click()
    source.revert.click()
    assert not source.comparing and source.text.toPlainText() == LINEAR
    assert "edited" not in source.choice.currentText() and source.compare.isHidden()
    source.restore.click()
    assert source.text.editable and "14" in source.text.toPlainText()


@pytest.mark.slow
def test_runs_use_the_copy_and_say_so(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path) -> None:
    begin(panel)
    put(panel, "12", "15")
    panel.run("simulate")
    job = runner[-1].waiting[0].job
    assert isinstance(job, AnalyseJob) and "15" in job.step.options.modules["linear"]
    ran = {"simulator": "icarus", "samples": 4, "stuck": False, "first_mismatches": [], "mismatches": 0}
    from tests.gui.hardware.test_hardware_panel import report

    runner[-1].finish(report(tmp_path, **ran))
    assert (
        panel.hardware.result
        and ("same", "with edited linear") in verdicts(panel.hardware.result)
        and not panel.hardware.stale
    )
    put(panel, "15", "16")
    assert panel.hardware.stale


@pytest.mark.slow
def test_a_copy_survives_save_and_reopen(panel: HardwarePanel, window: Window, runner: list[FakeRunner],
                                         tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    begin(panel)
    put(panel, "12", "17")
    panel.hardware.copies.write()
    document = window.session.document
    assert document is not None
    save_project(document.snapshot(), document.store, tmp_path / "p.espalier")
    again = load_project(tmp_path / "p.espalier", WeightStore(tmp_path / "store"))
    monkeypatch.setattr(edited_modules, "built_in", lambda module: "module linear;\nendmodule\n")
    monkeypatch.setattr(source_module, "built_in", lambda module: "module linear;\nendmodule\n")
    open_small(window, runner, again)
    assert "17" in panel.hardware.copies.texts["linear"] and panel.hardware.copies.outdated("linear")
    source = panel.views.source
    source.show_file(FILE)
    assert "built-in module has changed since" in source.state.text() and source.settle.isVisibleTo(source)
    source.settle.click()
    assert not panel.hardware.copies.outdated("linear") and "17" in panel.hardware.copies.texts["linear"]


@pytest.mark.slow
def test_errors_are_shown_while_typing(panel: HardwarePanel, qtbot: QtBot) -> None:
    pytest.importorskip("pyslang")
    source = panel.views.source
    begin(panel)
    qtbot.waitUntil(lambda: "✓ slang" in source.state.text(), timeout=PATIENCE * 1000)
    put(panel, "8'hFF", "nobody")
    qtbot.waitUntil(lambda: source.findings.count() > 0, timeout=PATIENCE * 1000)
    assert source.text.marks.keys() == {3} and "nobody" in source.text.marks[3] and "✗ 1 error" in source.state.text()
    waves = [x for x in source.text.extraSelections() if x.cursor.selectedText() == "nobody"]  # type: ignore[attr-defined]
    assert len(waves) == 1
    source.findings.itemActivated.emit(source.findings.item(0))
    assert source.text.textCursor().blockNumber() == 2


@pytest.mark.slow
def test_what_is_written_stays_in_sight_beside_its_errors(panel: HardwarePanel) -> None:
    source = panel.views.source
    begin(panel)
    text = source.text
    text.setPlainText("\n".join(f"// {k}" for k in range(300)))
    text.go_to(150)
    text.verticalScrollBar().setValue(150 - text.viewport().height() // text.fontMetrics().lineSpacing())
    seen = text.viewport().rect().contains(text.cursorRect())
    source.findings.show_marks([Mark(150, "wrong"), Mark(151, "too")])
    QApplication.processEvents()
    assert seen and text.viewport().rect().contains(text.cursorRect())


@pytest.mark.slow
def test_without_slang_it_says_how_to_get_it(panel: HardwarePanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "can_check", lambda: False)
    begin(panel)
    assert "pip install espalier[rtl]" in panel.views.source.state.text()


def test_what_cannot_be_read_is_told_and_stays(panel: HardwarePanel, window: Window, runner: list[FakeRunner]) -> None:
    with pytest.raises(OptionsError):
        from_bytes(b'{"version": 1, "modules": {"../x": {"text": "", "original": ""}}}')
    project = quantised()
    project.extras[MEMBER] = b"nonsense"
    open_small(window, runner, project)
    assert "cannot be read" in panel._error.text() and panel.hardware.copies.modules == {}
    panel.hardware.copies.write()
    document = window.session.document
    assert document is not None and document.project.extras[MEMBER] == b"nonsense"


def test_a_click_in_the_changes_selects_nothing(panel: HardwarePanel, runner: list[FakeRunner], tmp_path: Path,
                                                window: Window) -> None:  # fmt: skip
    nested(panel, runner, tmp_path)
    source, tree = panel.views.source, panel.views.tree
    source.show_file(FILE)
    begin(panel)
    put(panel, "endmodule", "// mine")
    source.compare.click()
    window.session.select(())
    assert source.comparing and not source.text.editable
    source.text.clicked.emit("", 5)
    assert window.session.selection == () and not tree.selectedItems()
    assert source.comparing, "the changes stay in front"
