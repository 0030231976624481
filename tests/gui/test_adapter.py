"""LoRA and freezing in the inspector: one undo step each, mixed values shown as such, colours that follow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.canvas.colouring import TRAINS, colouring
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.node_metrics import NodeMetrics
from espalier.app.features.inspector.adapter import AdapterSection
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.session.session import Session
from espalier.app.step_text import result, summary
from espalier.app.theme import LIGHT
from espalier.app.widgets.forms.fields import MIXED
from espalier.model.graph.adapters import adapted
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.jobs.kinds import Done, ReplayJob, ReplayResult, Started
from espalier.passes.recipes.replay import replay
from tests.gui.bert import GELU, KEY, NORM, QUERY, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def section(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[AdapterSection]:
    open_bert(session, runner)
    panel = InspectorPanel(session)
    panel.resize(320, 900)
    panel.show()
    yield panel.adapter
    panel.close()
    panel.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def answer(session: Session, runner: list[FakeRunner]) -> None:
    """Run the waiting replays here: LoRA needs numpy alone."""
    assert session.document is not None
    for info in list(runner[-1].waiting):
        if isinstance(info.job, ReplayJob):
            done = replay(info.job.base, info.job.recipe, Context(session.document.store))
            runner[-1].tell(info, Started())
            runner[-1].tell(info, Done(ReplayResult(done.graph, done.results, {})))


def graph_of(session: Session) -> Graph:
    assert session.document is not None
    return session.document.graph


def held(session: Session) -> dict[str, tuple[int, float, float]]:
    return {n.id: (a.rank, a.alpha, a.dropout) for n, a in adapted(graph_of(session))}


def write(section: AdapterSection, name: str, text: str) -> None:
    field = section.fields[name]
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    section._change()


def test_insert_change_remove_and_undo(section: AdapterSection, session: Session, runner: list[FakeRunner]) -> None:
    session.select((QUERY, KEY))
    assert section.isVisible() and not section.fuse.isVisible() and section.insert.text() == "Insert"
    section.insert.click()
    answer(session, runner)
    assert held(session) == {QUERY: (8, 16.0, 0.0), KEY: (8, 16.0, 0.0)}
    assert "adds 1\u2009024 parameters, 50" in section.words.text() and not section.insert.isVisible()
    write(section, "rank", "4")
    answer(session, runner)
    assert held(session)[KEY] == (4, 16.0, 0.0) and len(session.recipe.steps) == 1
    write(section, "alpha", "2")
    answer(session, runner)
    assert held(session)[KEY] == (4, 2.0, 0.0) and len(session.recipe.steps) == 1
    session.undo()
    assert held(session)[KEY] == (8, 16.0, 0.0)
    session.undo()
    assert not held(session)
    session.redo()
    section.remove.click()
    answer(session, runner)
    assert not held(session) and section.insert.isVisible()


def test_mixed_ranks_stay_where_only_alpha_is_written(
    section: AdapterSection, session: Session, runner: list[FakeRunner]
) -> None:
    for node, rank in ((QUERY, "2"), (KEY, "6")):
        session.select((node,))
        section.insert.click()
        answer(session, runner)
        write(section, "rank", rank)
        answer(session, runner)
    session.select((QUERY, KEY))
    assert section.fields["rank"].placeholderText() == MIXED and not section.fields["rank"].text()
    write(section, "alpha", "5")
    answer(session, runner)
    assert held(session) == {QUERY: (2, 5.0, 0.0), KEY: (6, 5.0, 0.0)}
    session.select((QUERY, KEY, "encoder_layer_0_attention_self_value"))
    assert section.insert.text() == "Insert in 1 more layer"


def test_wrong_numbers_are_marked_and_not_asked(
    section: AdapterSection, session: Session, runner: list[FakeRunner]
) -> None:
    session.select((QUERY,))
    section.insert.click()
    answer(session, runner)
    write(section, "rank", "0")
    assert section.fields["rank"].property("wrong") and not runner[-1].waiting


def test_freezing_is_an_instant_step(section: AdapterSection, session: Session) -> None:
    session.select((NORM, QUERY))
    assert not section.frozen.isChecked()
    section.frozen.click()
    assert not graph_of(session).weights[graph_of(session)[NORM].weights["weight"]].trainable
    assert section.frozen.isChecked() and len(session.recipe.steps) == 1
    session.select((NORM, KEY))
    assert section.frozen.checkState().value == 1  # mixed
    session.undo()
    assert graph_of(session).weights[graph_of(session)[NORM].weights["weight"]].trainable


def test_a_node_without_parameters_has_no_section(section: AdapterSection, session: Session) -> None:
    session.select((GELU,))
    assert not section.isVisible()
    session.select((NORM,))
    assert section.isVisible() and not section.insert.isVisible() and section.frozen.isVisible()


def test_colours_and_words_follow(section: AdapterSection, session: Session, runner: list[FakeRunner]) -> None:
    before = graph_of(session)
    tree, figures = build(before, True), NodeMetrics.of(before)
    index = {name: i for i, name in enumerate(before.nodes)}
    session.select((QUERY,))
    section.insert.click()
    answer(session, runner)
    after = graph_of(session)
    figures.update(after, after.delta(before).changed, index)
    assert figures.adapters[index[QUERY]] == "LoRA r8" and np.array_equal(
        figures.trains, NodeMetrics.of(after).trains, True
    )
    found = colouring("trainable", tree, figures, None, LIGHT)
    assert [s[0] for s in found.legend.swatches] == ["frozen", "adapter"]
    assert found.codes[index[QUERY]] == TRAINS.index("adapter") and found.codes[index[NORM]] == TRAINS.index("frozen")
    assert found.code_of(np.array([index[QUERY], index[NORM]])) == TRAINS.index("adapter")
    step = session.recipe.steps[0]
    assert "rank 8 · alpha 16" in summary(step, after)
    assert "512 parameters added" in result(session.step_reports()[0], step)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_badge_is_drawn(theme: str, qtbot: QtBot) -> None:
    from PySide6.QtGui import QImage, QPainter

    from espalier.app.canvas.sprites import Face, paint_node
    from espalier.app.theme import DARK

    palette = DARK if theme == "dark" else LIGHT
    pictures = []
    for adapter in ("", "LoRA r8"):
        image = QImage(200, 44, QImage.Format.Format_ARGB32)
        image.fill(0)
        painter = QPainter(image)
        face = Face("query", "Linear 128 → 128", "fp32", -1.0, "#0072B2", 160, adapter=adapter)
        paint_node(painter, face, palette, 1.0)
        painter.end()
        pictures.append(image)
    assert pictures[0] != pictures[1]
