"""What the tabs Compile, Profile and Memory share: made when seen, settings, errors, menus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtTest import QTest

from espalier.app.features.kernels.actions import panel_of
from espalier.app.features.kernels.measurement_actions import measure
from espalier.app.features.kernels.measurement_tab import MeasurementTab
from espalier.app.features.kernels.state.measurement import Measurement
from espalier.app.figures.facts import node_facts
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.window import Window
from espalier.kernels.bench.spec import Lab
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.meta import Precision
from espalier.model.registry import PASSES
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.jobs.kinds import AnalyseJob, Failed, Started, Stopped
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.kernels.measured_tabs import compiling, job_of, profile

pytestmark = pytest.mark.gui


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_wrong_setting_is_told(small: Window, runner: list[FakeRunner]) -> None:
    page, told = profile(small), list[Any]()
    small.session.problem.connect(told.append)
    page.form.editors["batch_size"].setText("0")
    page.form.editors["batch_size"].textEdited.emit("0")
    page.run()
    assert told and page.state.job is None and page.form.wrong.text()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_mx_weights_stand_under_deploy(small: Window) -> None:
    row = next(r for r in small.actions_table.rows if r.id == "pack_mx")
    assert (row.menu, row.section) == ("Model", "Deploy") and "packed" in row.help
    spec = PASSES.get("pack_mx")
    assert default_options(small.session, spec).width == "8", "nothing is in mxint yet"
    small.session.set_format(("fc1",), "weight", MXInt(8, 8))
    assert default_options(small.session, spec).width == "as it is"


@pytest.mark.slow
def test_a_packed_weight_says_what_it_takes(small: Window) -> None:
    graph = small.session.open_document.graph
    plain = {f.name for f in node_facts(graph["fc1"], graph)}
    held = replace(graph["fc1"], packed=True, precision={"weight": Precision(MXInt(8, 8))})
    facts = {f.name: f.value for f in node_facts(held, graph.replace(held))}
    assert "in memory" not in plain and facts["in memory"].replace("\u2009", " ") == "0.1 KiB of 0.2 KiB"
