"""The tab Memory: the ledger, ways to save more, what an edit gained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QPushButton

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.measurement_tab import OLD
from espalier.app.features.kernels.memory import MemoryPage
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.passes.base import Report
from tests.gui.conftest import FakeRunner
from tests.gui.kernels.measured_tabs import finish

pytestmark = pytest.mark.gui


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


def counting(window: Window) -> MemoryPage:
    page = panel_of(window.host).page("Memory")
    assert isinstance(page, MemoryPage)
    return page


@pytest.mark.slow
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
