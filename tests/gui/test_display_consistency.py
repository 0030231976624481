"""The window shows the current state: changed nodes, badges by port, differing twins, colours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QLabel, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.node_metrics import NodeMetrics, badge, counts
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.options.panel import make_form
from espalier.app.shell.actions.edit import select_alike
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.window import Window
from espalier.app.widgets.charts.chart import Chart
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.registry import PASSES
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.transform.replace_linear import ReplaceLinearOptions
from tests.gui.bert import open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def bert(window: Window, runner: list[FakeRunner]) -> Window:
    """The traced model of two layers."""
    window.live.enabled = False
    open_bert(window.session, runner)
    return window


def graph_of(window: Window) -> Graph:
    return window.session.open_document.graph


def named(window: Window, part: str) -> list[str]:
    return [n.id for n in graph_of(window) if part in n.id and n.op == "linear"]


def with_formats(graph: Graph, name: str, *ports: str) -> Graph:
    node = graph.nodes[name]
    return graph.replace(replace(node, precision={p: Precision(Integer(8, 4)) for p in ports}))


def facts(inspector: InspectorPanel) -> str:
    return " ".join(label.text() for label in inspector.facts.findChildren(QLabel) if label.isVisibleTo(inspector))


# -- what is said


def test_the_inspector_tells_of_the_node_that_is_there_now(bert: Window) -> None:
    inspector = bert.docks.panels["inspector"]
    assert isinstance(inspector, InspectorPanel)
    (first, *_) = named(bert, "query")
    bert.session.select((first,))
    before = facts(inspector)
    bert.session.run_pass("replace_linear", ReplaceLinearOptions())
    after = graph_of(bert).nodes.get(first)
    assert after is not None and after.op == "identity", "it keeps its name"
    assert "identity" in facts(inspector).lower() and facts(inspector) != before


def test_a_badge_tells_the_port_that_it_is_of(bert: Window) -> None:
    graph, (first, *_) = graph_of(bert), named(bert, "query")
    assert badge(with_formats(graph, first, "weight", "data_out").nodes[first]) == "int 8/4"
    assert badge(with_formats(graph, first, "data_out").nodes[first]) == "out int 8/4"
    assert badge(with_formats(graph, first, "data_in").nodes[first]) == "in int 8/4"
    assert badge(with_formats(graph, first, "bias").nodes[first]) == "bias int 8/4"


def test_twins_are_identical_while_their_choices_are(bert: Window) -> None:
    graph, tree = graph_of(bert), build(graph_of(bert))
    number = next(i for i, g in enumerate(tree.groups) if g.twins > 1)
    figures = NodeMetrics.of(graph)
    assert figures.twins(tree, number) == (2, False)
    assert counts(10, 0, (2, False))[0].endswith("×2 identical")
    first, second = named(bert, "query")
    one = with_formats(graph, first, "weight")
    figures.update(one, (first,), tree.index)
    assert figures.twins(tree, number) == (2, True) and "×2, choices differ" in counts(10, 0, (2, True))[0]
    figures.update(with_formats(one, second, "weight"), (second,), tree.index)
    assert figures.twins(tree, number) == (2, False)


def test_the_outline_tells_it_too(bert: Window) -> None:
    model = bert.docks.panels["outline"].model  # type: ignore[attr-defined]
    tree = model.tree
    group = next(i for i, g in enumerate(tree.groups) if g.twins > 1)
    item = len(graph_of(bert)) + group
    assert model.chips(item).twins == 2 and not model.chips(item).differ
    bert.session.set_format(named(bert, "query")[:1], "weight", Integer(8, 4))
    assert model.chips(item).differ


# -- what is offered


def test_decompose_is_offered_for_attentions_alone(bert: Window) -> None:
    spec = PASSES.get("decompose_attention")
    attention = next(n.id for n in graph_of(bert) if n.op == "attention" or "scaled_dot" in n.target)
    bert.session.select(named(bert, "query"))
    assert default_options(bert.session, spec).select == spec.options().select
    bert.session.select((*named(bert, "query"), attention))
    assert default_options(bert.session, spec).select.values == (attention,)


def test_a_form_shows_the_fields_that_apply(bert: Window, qtbot: QtBot) -> None:
    form = make_form(PruneOptions(), bert.session)
    qtbot.addWidget(form)

    def shown() -> set[str]:
        return {n for n in ("n", "m", "rows", "columns", "least", "most") if form.editors[n].isVisibleTo(form)}

    assert shown() == set()
    form.editors["pattern"].put("n:m")
    form.editors["pattern"].edited.emit()
    assert shown() == {"n", "m"}
    form.put(PruneOptions(pattern="block", scope="global"))
    assert shown() == {"rows", "columns", "least", "most"}
    assert form.value() == PruneOptions(pattern="block", scope="global")


def test_a_python_file_lists_what_it_defines(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []
    monkeypatch.setattr(window.services.opening, "open_spec", wanted.append)
    file = tmp_path / "nets.py"
    file.write_text("raise SystemExit('it was run')\nclass Net:\n def __init__(self, width): ...\n"
                    "class Small:\n pass\ndef _hidden(): ...\ndef tiny(): ...\ndef of(width): ...\n")  # fmt: skip
    window.services.opening.open_path(file)
    dialog = window.findChild(QInputDialog)
    assert dialog is not None and list(dialog.comboBoxItems()) == ["tiny", "Small", "of", "Net"]
    dialog.setTextValue("Small")
    dialog.accept()
    assert wanted == [f"{file}:Small"]
    file.write_text("def only(): ...\n")
    window.services.opening.open_path(file)
    assert wanted[1:] == [f"{file}:only"]
    file.write_text("x = 1\n")
    window.services.opening.open_path(file)
    assert "defines no function" in window.banner.text
    file.write_text("def (:\n")
    window.services.opening.open_path(file)
    assert "not valid Python" in window.banner.text and len(wanted) == 2


def test_all_of_a_type_are_selected_where_one_looks(bert: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(bert.canvas, "reveal", shown.append)
    last = named(bert, "query")[-1]
    bert.session.select((last,))
    assert shown == [last]
    select_alike(bert.session)
    assert len(bert.session.selection) > 2 and shown == [last], "the camera stays"
    bert.session.select(named(bert, "key")[:1])
    assert shown == [last, *named(bert, "key")[:1]]


# -- the wheel, pictures


def test_the_wheel_scrolls_the_inspector_over_its_plots(bert: Window, qtbot: QtBot) -> None:
    inspector = bert.docks.panels["inspector"]
    assert isinstance(inspector, InspectorPanel)
    bert.session.select(named(bert, "query")[:1])
    charts: list[QWidget] = [c.viewport() for c in inspector.findChildren(Chart)]
    assert charts
    for chart in charts:
        event = QWheelEvent(QPointF(5, 5), chart.mapToGlobal(QPointF(5, 5)), QPoint(0, -120), QPoint(0, -120),
                            Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase,
                            False)  # fmt: skip
        event.ignore()
        QApplication.sendEvent(chart, event)
        assert not event.isAccepted(), "the panel around it scrolls"


def test_the_graph_is_saved_as_svg(bert: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr(bert.services.dialogs, "ask_path", lambda title, then, **_: then(written[-1]))
    written.append(tmp_path / "graph.svg")
    bert.services.exports.export_picture()
    text = written[-1].read_text()
    assert text.startswith("<?xml") and "query" in text and not bert.banner.text
    written.append(tmp_path / "graph.jpeg")
    bert.services.exports.export_picture()
    assert "ends in .svg or .png" in bert.banner.text and not written[-1].exists()
    written.append(tmp_path / "nowhere" / "graph.svg")
    bert.services.exports.export_picture()
    assert "No such file" in bert.banner.text and "or choose another" in bert.banner.text


def test_the_name_of_a_new_file_is_plain(bert: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    suggested: list[str] = []
    dialog = QFileDialog(bert)

    def ask(title: str, then: object, *, suggestion: str, **_: object) -> QFileDialog:
        suggested.append(suggestion)
        return dialog

    monkeypatch.setattr(bert.services.dialogs, "ask_path", ask)
    bert.services.saving.save_as()
    assert suggested == [f"{bert.session.open_document.project.source.name.split(' ')[0]}-configuration.espalier"]
