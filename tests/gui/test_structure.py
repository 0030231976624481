"""Structured pruning in the window: the form's preview, the inspector's rows, the Model menu."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.figures.structure_cache import STRUCTURES, same_facts
from espalier.app.shell.sections import section_of
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.jobs.kinds import ReplayJob
from espalier.passes.transform.remove_pruned import RemovePrunedOptions
from tests.gui.bert import QUERY, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def bert(window: Window, runner: list[FakeRunner]) -> Window:
    open_bert(window.session, runner)
    return window


def graph_of(window: Window) -> Graph:
    assert window.session.document is not None
    return window.session.document.graph


def form_of(window: Window) -> OptionsWindow:
    return next(p for p in window.findChildren(OptionsWindow) if not p.isHidden())


def put(form: OptionsWindow, options: PruneStructuredOptions) -> None:
    form._form.put(options)  # type: ignore[attr-defined]
    form.preview.refresh()  # type: ignore[union-attr]


def cells(form: OptionsWindow) -> list[list[str]]:
    assert form.preview is not None
    table = form.preview.table
    return [[table.item(r, c).text() for c in range(table.columnCount())] for r in range(table.rowCount())]  # type: ignore[union-attr]


def test_the_menu_has_them_by_section() -> None:
    assert [section_of(n) for n in ("prune_structured", "remove_pruned", "remove_layers", "replace_linear")] == [
        "Prune", "Prune", "Simplify", "Simplify"]  # fmt: skip


def test_the_form_tells_what_goes_before_it_runs(bert: Window, qtbot: QtBot, runner: list[FakeRunner]) -> None:
    bert.services.forms.ask("prune_structured")
    form = form_of(bert)
    assert form.preview is not None
    put(form, PruneStructuredOptions("heads", 0.5))
    qtbot.waitUntil(lambda: len(cells(form)) == 2, timeout=5000)
    assert [row[:4] for row in cells(form)] == [["0 · self.query", "2", "1", "1"], ["1 · self.query", "2", "1", "1"]]
    assert form.preview.summary.text() == "2 sets · 2 of 4 units removed"
    put(form, PruneStructuredOptions("neurons", 0.25))
    qtbot.waitUntil(lambda: cells(form)[0][1] == "64", timeout=5000)
    assert cells(form)[0][2:4] == ["16", "48"]
    put(form, PruneStructuredOptions("channels", 0.25))
    qtbot.waitUntil(lambda: not form.preview.table.isVisible(), timeout=5000)  # type: ignore[union-attr]
    assert form.preview.summary.text().startswith("The model has no channels. It has heads")
    put(form, PruneStructuredOptions("heads", 0.5, scope="global"))
    qtbot.waitUntil(lambda: "scores of all sets decide" in form.preview.summary.text(), timeout=5000)  # type: ignore[union-attr]
    form.apply()
    job = runner[-1].waiting[-1].job
    assert isinstance(job, ReplayJob) and job.recipe.steps[-1].options == PruneStructuredOptions(
        "heads", 0.5, scope="global"
    )


def test_the_inspector_says_what_rows_and_columns_belong_to(bert: Window, qtbot: QtBot) -> None:
    bert.session.select([next(n for n in graph_of(bert).nodes if n.endswith(QUERY))])
    section = bert.docks.panels["inspector"].structure
    qtbot.waitUntil(lambda: bool(section.rows.facts), timeout=5000)
    found = {f.name: (f.value, f.full) for f in section.rows.facts}
    assert found["rows"][0] == "2 heads × 16" and "self.key" in found["rows"][1]
    assert found["columns"][0] == "32 channels of the width"
    assert "output.dense columns" in section.description.text() and not section.isHidden()
    bert.session.select([])
    assert section.isHidden()


def test_the_structure_is_found_once_for_edits_of_choices(bert: Window) -> None:
    graph = graph_of(bert)
    first = STRUCTURES.of(graph)
    node = next(n for n in graph if n.op == "linear")
    chosen = graph.replace(replace(node, precision={}))
    assert same_facts(graph, chosen) and STRUCTURES.of(chosen) is first
    other = graph.replace(replace(node, attrs=dict(node.attrs)))
    assert STRUCTURES.of(other) is first or not same_facts(graph, other)


def test_a_closed_form_hears_no_more_of_the_session(bert: Window, qtbot: QtBot) -> None:
    bert.services.forms.ask("prune_structured")
    form = form_of(bert)
    with qtbot.waitSignal(form.destroyed, timeout=5000):
        form.close()
    with qtbot.captureExceptions() as caught:
        bert.session.set_format([next(n for n in graph_of(bert).nodes if n.endswith(QUERY))], "weight", Integer(8, 4))
        bert.session.undo()
    assert not caught


def test_what_is_masked_is_removed_wherever_it_lies(bert: Window) -> None:
    bert.session.select([next(n for n in graph_of(bert).nodes if n.endswith(QUERY))])
    bert.services.forms.ask("remove_pruned")
    assert form_of(bert)._form.value() == RemovePrunedOptions()  # type: ignore[attr-defined]


def test_the_form_begins_with_what_the_selected_nodes_have(bert: Window, qtbot: QtBot) -> None:
    bert.session.select([next(n for n in graph_of(bert).nodes if n.endswith(QUERY))])
    bert.services.forms.ask("prune_structured")
    form = form_of(bert)
    assert form.preview is not None and form._form.value().what == "heads"  # type: ignore[attr-defined]
    assert form.height() <= bert.screen().availableGeometry().height()
    put(form, replace(form._form.value(), what="neurons"))  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: not form.apply_button.isEnabled(), timeout=5000)
    assert form.preview.summary.text() == "The selected nodes have no neurons. They belong to: heads."
    put(form, replace(form._form.value(), what="heads"))  # type: ignore[attr-defined]
    qtbot.waitUntil(form.apply_button.isEnabled, timeout=5000)
