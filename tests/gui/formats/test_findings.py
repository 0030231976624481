"""Colours by what was measured: asked for when chosen, stale after an edit, back with undo; reports of steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from espalier.app.commands.console import table as console_table
from espalier.app.features.options.panel import OptionsWindow
from espalier.app.features.tables.state import document_reports_of
from espalier.app.measured.findings import NO_DATA, NOTHING, RUNNING, STALE, values_of
from espalier.app.number_text import column_title, shown
from espalier.app.shell.window import Window
from espalier.app.widgets.sqnr_table import sqnr_text
from espalier.model.formats.integer import Integer
from espalier.passes.base import Report, StepResult
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export import Exported
from espalier.passes.jobs.kinds import AnalyseJob, ExportJob, ReplayJob, ReplayResult
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui


def row(node: str, kind: str, sqnr: float | None, saturated: float = 0.0) -> dict[str, Any]:
    port = {"weight": "weight", "activation": "data_in"}.get(kind, "data_out")
    return {"node": node, "port": port, "kind": kind, "format": "integer(width=8, frac_width=4)", "bits": 8.0,
            "sqnr_db": sqnr, "saturated": saturated}  # fmt: skip


WEIGHTS = Report("quantization", (row("fc1", "weight", 30.0, 0.02), row("fc2", "weight", 12.5)))
ON_DATA = Report("quantization", (*WEIGHTS.rows, row("fc1", "activation", 20.0, 0.25), row("fc1", "output", 9.0)))


def quantise(window: Window, width: int = 8) -> None:
    rule = Rule(Select("type", ("linear",)), {"weight": Integer(width, 4), "data_in": Integer(width, 4)})
    window.session.run_pass("quantize", QuantizeOptions((rule,)))


def legend(window: Window) -> str:
    assert window.canvas.scene is not None
    found = window.canvas.scene.colours.legend
    words = found.low, found.high, *(text for text, _ in found.swatches)
    return " ".join(w for w in (found.title, *words) if w).replace("\u2009", " ")


@pytest.fixture
def drawn(opened: Window, qtbot: QtBot) -> Window:
    """The window with the small graph laid out, and nothing that measures by itself."""
    opened.live.enabled = False
    qtbot.waitUntil(lambda: opened.canvas.scene is not None)
    return opened


def jobs_of(runner: FakeRunner, name: str) -> list[AnalyseJob]:
    return [j.job for j in runner.waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name]


def test_choosing_a_colour_measures_it_once(drawn: Window, runner: list[FakeRunner]) -> None:
    quantise(drawn)
    drawn.actions_table.run("colour_weight_sqnr")
    assert (
        len(jobs_of(runner[-1], "quantization")) == 1 and jobs_of(runner[-1], "quantization")[0].step.options.data == ""
    )
    assert legend(drawn).startswith("weight SQNR: ")
    runner[-1].finish(WEIGHTS)
    assert legend(drawn) == "weight SQNR 12.5 dB 30 dB"
    drawn.actions_table.run("colour_saturation")  # known by the same measurement
    assert legend(drawn) == "saturation 0.0 % 2.0 %" and not runner[-1].waiting


def test_values_of_an_earlier_graph_are_marked_until_undo_or_a_new_measurement(
    drawn: Window, runner: list[FakeRunner]
) -> None:
    quantise(drawn)
    drawn.actions_table.run("colour_weight_sqnr")
    runner[-1].finish(WEIGHTS)
    quantise(drawn, 6)
    assert legend(drawn) == f"weight SQNR ({STALE}) 12.5 dB 30 dB"
    drawn.session.undo()
    assert legend(drawn) == "weight SQNR 12.5 dB 30 dB"
    drawn.session.redo()
    drawn.actions_table.run("colour_weight_sqnr")
    runner[-1].finish(Report("quantization", (row("fc1", "weight", 5.0), row("fc2", "weight", 4.0))))
    assert legend(drawn) == "weight SQNR 4 dB 5 dB"


def test_a_report_of_a_graph_that_changed_meanwhile_is_stale(drawn: Window, runner: list[FakeRunner]) -> None:
    quantise(drawn)
    drawn.actions_table.run("colour_weight_sqnr")
    quantise(drawn, 6)
    runner[-1].finish(WEIGHTS)
    assert STALE in legend(drawn)


def test_without_formats_or_data_the_legend_says_why(drawn: Window, runner: list[FakeRunner]) -> None:
    drawn.actions_table.run("colour_weight_sqnr")
    assert legend(drawn) == f"weight SQNR: {NOTHING}" and not runner[-1].waiting
    quantise(drawn)
    drawn.actions_table.run("colour_output_sqnr")
    assert legend(drawn) == f"output SQNR: {NO_DATA}" and not runner[-1].waiting


def test_activations_are_measured_on_the_data_of_the_source(
    window: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    window.live.enabled = False
    open_small(window, runner, small_project("demo:digits"))
    qtbot.waitUntil(lambda: window.canvas.scene is not None)
    quantise(window)
    window.actions_table.run("colour_output_sqnr")
    (job,) = jobs_of(runner[-1], "quantization")
    assert job.step.options.data == "demo:digits" and RUNNING not in legend(window)
    runner[-1].finish(ON_DATA)
    assert legend(window) == "output SQNR 9 dB"
    window.canvas.set_mode("activation_sqnr")
    assert legend(window) == "activation SQNR 20 dB"


def test_data_that_was_evaluated_on_is_what_activations_are_measured_on(
    drawn: Window, runner: list[FakeRunner]
) -> None:
    quantise(drawn)
    drawn.actions_table.run("colour_output_sqnr")
    assert legend(drawn) == f"output SQNR: {NO_DATA}"
    drawn.session.evaluate(EvaluateOptions(data="some.csv", text="words", label="mood", max_length=32))
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0}))
    drawn.actions_table.run("colour_output_sqnr")
    (job,) = jobs_of(runner[-1], "quantization")
    told = job.step.options
    assert (told.data, told.text, told.label, told.max_length) == ("some.csv", "words", "mood", 32)
    runner[-1].finish(ON_DATA)
    drawn.actions_table.run("calibrate")
    (page,) = (p for p in drawn.findChildren(OptionsWindow) if not p.isHidden())
    form = page._form.value()  # type: ignore[attr-defined]
    assert (form.data, form.text, form.label, form.max_length) == ("some.csv", "words", "mood", 32)


def test_modes_without_a_format_say_so_once_they_were_looked_at(
    window: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    window.live.enabled = False
    open_small(window, runner, small_project("demo:digits"))
    qtbot.waitUntil(lambda: window.canvas.scene is not None, timeout=60_000)
    window.session.run_pass("quantize", QuantizeOptions((Rule(Select("name", ("fc1",)), {"weight": Integer(8, 4)}),)))
    window.actions_table.run("colour_activation_sqnr")
    runner[-1].finish(Report("quantization", (row("fc1", "weight", 30.0), row("fc1", "output", 9.0))))
    assert legend(window) == "activation SQNR: no activation is quantised" and not runner[-1].waiting
    window.actions_table.run("colour_activation_sqnr")
    assert not runner[-1].waiting, "it is known"


def test_the_worst_port_of_a_node_counts() -> None:
    assert values_of(ON_DATA, "saturation") == {"fc1": 0.25, "fc2": 0.0}
    twice = Report(
        "quantization", (row("a", "activation", 20.0), row("a", "activation", 3.0), row("b", "weight", None))
    )
    assert values_of(twice, "activation_sqnr") == {"a": 3.0} and values_of(twice, "weight_sqnr") == {}


# -- tables


def test_the_quantisation_report_stands_worst_first_with_units(drawn: Window) -> None:
    drawn.session.report_ready.emit(WEIGHTS)
    table = drawn.docks.tables.table
    assert [r["node"] for r in table.rows.shown] == ["fc2", "fc1"]
    names = table.rows.columns
    cells = [str(table.rows.index(1, c).data()).replace("\u2009", " ") for c in range(len(names))]
    assert dict(zip(names, cells, strict=True)) | {"format": "int 8/4", "saturated": "2.0 %"} == dict(
        zip(names, cells, strict=True)
    )
    assert column_title("worst_activation_sqnr_db") == "worst activation SQNR (dB)" and shown("zeros", 12) == "12"


@pytest.mark.slow
def test_a_layer_without_error_is_exact_in_every_table(drawn: Window) -> None:
    rows = (row("fc1", "weight", None) | {"max_error": 0.0}, row("fc2", "weight", None) | {"max_error": 0.5})
    drawn.session.report_ready.emit(Report("quantization", rows))
    table = drawn.docks.tables.table
    column = table.rows.columns.index("sqnr_db")
    told = {table.rows.shown[i]["node"]: table.rows.index(i, column).data() for i in range(2)}
    assert told == {"fc1": sqnr_text(math.inf), "fc2": sqnr_text(None)} == {"fc1": "exact", "fc2": "no signal"}
    head, *lines = console_table(rows)
    end = head.index("sqnr db") + len("sqnr db")
    assert [line[:end].split("  ")[-1].strip() for line in lines] == ["exact", "no signal"]


def test_show_node_brings_the_node_of_a_row_into_view(drawn: Window) -> None:
    drawn.session.report_ready.emit(WEIGHTS)
    tables = drawn.docks.tables
    assert not tables._show_node.isEnabled()
    tables.table.selectRow(0)
    drawn.session.select(())
    tables._show_node.click()
    assert drawn.session.selection == ("fc2",)


def test_the_report_of_a_step_that_was_asked_for_opens_as_a_table(drawn: Window, runner: list[FakeRunner]) -> None:
    quantise(drawn)
    tables = drawn.docks.tables
    document_reports_of(drawn.session).expect("calibrate")
    drawn.session.run_pass("calibrate", CalibrateOptions())
    job = runner[-1].waiting[0].job
    assert isinstance(job, ReplayJob)
    found = Report("calibrate", ({"node": "fc1", "sqnr_db": 31.0}, {"node": "fc2", "sqnr_db": 7.0}))
    after = drawn.session.open_document.graph
    runner[-1].finish(ReplayResult(after, (None, StepResult(after, found, 0.1)), {}))
    assert tables.current == "calibrate" and [r["node"] for r in tables.table.rows.shown] == ["fc2", "fc1"]
    assert tables._rerun.isHidden() and not drawn.docks.docks["tables"].visibleRegion().isEmpty()


# -- menus and export


def test_every_transform_stands_in_the_model_menu_under_its_section(drawn: Window) -> None:
    rows = {r.id: r for r in drawn.actions_table.rows}
    sections = {r.section for r in rows.values() if r.menu == "Model"} - {""}
    assert {"Quantise", "Calibrate", "Train", "Prune", "Simplify"} <= sections
    assert rows["finetune"].section == "Train" and rows["calibrate"].title == "Calibrate formats…"
    assert rows["remove_dropout"].title == "Remove dropout"


def test_a_packed_export_tells_its_size_before_and_after(
    drawn: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Any
) -> None:
    size = drawn.session.score.size_bytes
    words = drawn.actions_table.actions["export_packed"].text()
    assert words.startswith("Packed model, ") and f"{size / 1024:.1f}" in words
    drawn.actions_table.run("export_packed")
    (dialog,) = drawn.findChildren(QFileDialog)
    assert f"{size / 1024:.1f}" in dialog.windowTitle()
    dialog.fileSelected.emit(str(tmp_path / "m.packed.safetensors"))
    job = runner[-1].waiting[0].job
    assert isinstance(job, ExportJob) and job.form == "packed"
    runner[-1].finish(Exported(("m",), 2048, ("A note.",)))
    assert drawn.banner._message.text().replace("\u2009", " ") == "m.packed.safetensors is written: 2.0 KiB."
    assert drawn.banner._hint.text() == "A note."
    dialog.close()
