"""The panel Export: which layers a target holds, why not, and a format that it would hold."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QPushButton

from espalier.app.features.exports.panel import ALL, CHOSEN, HELD, NONE, REFUSED, ExportPanel
from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format
from espalier.model.sources.reading import Limits
from tests.gui.bert import KEY, QUERY, traced
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


FIRST, SECOND = QUERY, KEY


@pytest.fixture
def opened(window: Window, runner: list[FakeRunner]) -> Window:
    """A BERT without formats."""
    window.live.enabled = False
    open_small(window, runner, traced()[0])
    window.resize(1200, 800)
    window.show()
    return window


@pytest.fixture
def panel(opened: Window) -> ExportPanel:
    """The panel of the model."""
    opened.show_dock("exports")
    found = opened.docks.panels["exports"]
    assert isinstance(found, ExportPanel)
    QApplication.processEvents()
    return found


def rows(panel: ExportPanel) -> dict[str, dict[str, object]]:
    QApplication.processEvents()
    return {str(row["node"]): dict(row) for row in panel.table.rows.shown}


def test_before_anything_is_chosen_it_says_what_could_be(panel: ExportPanel, opened: Window) -> None:
    found = rows(panel)
    assert {FIRST, SECOND} <= set(found) and all(found[FIRST][t] == NONE for t in panel.counts)
    assert panel.counts["onnx"].text() == "no layer has a format yet"
    assert panel.counts["gguf"].text().startswith("no file of bert is written")
    assert panel.layer._none.isVisible() and not panel.layer.title.isVisible()
    panel.table.selectRow(list(found).index(FIRST))
    assert opened.session.selection == (FIRST,)
    QApplication.processEvents()
    offered = panel.layer.formats["onnx"]
    assert (
        "int8 per channel" in offered.values
        and f"holds {len(offered.values)} formats" in panel.layer.texts["onnx"].text()
    )


def test_a_model_that_a_target_does_not_take_is_said_in_place_of_counts(panel: ExportPanel, opened: Window) -> None:
    document = opened.session.document
    assert document is not None
    document.describe(replace(document.project.source, limits=Limits(architecture="bert", head="masked-lm")))
    opened.session.set_format((FIRST,), "weight", parse_format("scaled_integer(width=8)"))
    QApplication.processEvents()
    assert panel.counts["gguf"].text().startswith("no file of bert is written, only of llama")
    assert panel.counts["onnx"].text() == "holds 1 of 1 layer with choices"


def test_a_choice_is_held_or_the_reason_and_a_format_are_named(panel: ExportPanel, opened: Window) -> None:
    opened.session.set_format((FIRST,), "weight", parse_format("log"))
    opened.session.select((FIRST,))
    found = rows(panel)[FIRST]
    assert str(found["compressed-tensors"]).startswith("weight: its values are no integers times scales")
    assert panel.counts["compressed-tensors"].text() == "holds 0 of 1 layer with choices"
    text = panel.layer.texts["compressed-tensors"].text()
    assert "of weight: its values are no integers times scales. Choose scaled_integer(width=8)." in text
    for shown, expected in ((CHOSEN, {FIRST}), (REFUSED, {FIRST}), (ALL, {FIRST, SECOND})):
        panel.shown.put(shown)
        panel.shown.edited.emit()
        assert expected <= set(rows(panel)) and (shown == ALL or set(rows(panel)) == expected)


def test_a_format_that_is_held_is_used_for_all_selected_weights(panel: ExportPanel, opened: Window) -> None:
    opened.session.select((FIRST, SECOND))
    QApplication.processEvents()
    assert "1 more layer" in panel.layer.title.text()
    panel.layer.formats["compressed-tensors"].put("int8 per channel")
    panel.layer.links["compressed-tensors"].click()  # type: ignore[attr-defined]
    graph = opened.session.open_document.graph
    for node in (FIRST, SECOND):
        assert graph[node].precision["weight"].format == parse_format("scaled_integer(width=8)")
    assert {rows(panel)[n]["compressed-tensors"] for n in (FIRST, SECOND)} == {HELD}
    opened.session.undo()
    assert not opened.session.open_document.graph[FIRST].precision
    assert rows(panel)[FIRST]["compressed-tensors"] == NONE


def test_it_exports_and_saves_its_table(
    panel: ExportPanel, opened: Window, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forms: list[str] = []
    monkeypatch.setattr(opened.services.exports, "_ask_path", lambda form, **_: forms.append(form))
    panel.links["gguf"].click()
    panel.links["compressed-tensors"].click()
    assert forms == ["gguf", "compressed-tensors"]
    panel.table.save(tmp_path / "t.csv")
    written = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert {row["node"] for row in written} == set(rows(panel)) and "onnx" in written[0]


def test_without_a_model_it_says_so(window: Window) -> None:
    window.build_panels()
    panel = window.docks.panels["exports"]
    assert isinstance(panel, ExportPanel) and panel._pages.currentIndex() == 0


def test_what_a_form_cannot_hold_is_left_in_float_on_request(opened: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line has --leave-float; the window asks, with the reason."""
    asked: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(opened.services.exports, "_ask_path", lambda form, **more: asked.append((form, more)))
    opened.session.set_format((FIRST,), "weight", parse_format("log"))
    opened.services.exports.export("compressed-tensors")
    assert not asked and "cannot hold" in opened.banner.text and "no integers times scales" in opened.banner.text
    buttons = {b.text(): b for b in opened.banner.findChildren(QPushButton) if b.isVisibleTo(opened.banner)}
    buttons["Show all"].click()
    assert opened.docks.panels["exports"].isVisible()
    opened.services.exports.export("compressed-tensors")
    buttons = {b.text(): b for b in opened.banner.findChildren(QPushButton) if b.isVisibleTo(opened.banner)}
    buttons["Leave them in float…"].click()
    assert asked == [("compressed-tensors", {"leave_float": True})]
    opened.session.set_format((FIRST,), "weight", parse_format("scaled_integer(width=8)"))
    opened.services.exports.export("compressed-tensors")
    assert asked[-1] == ("compressed-tensors", {}), "what is held is not asked about"
