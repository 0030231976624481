"""The SQNR of several selected nodes: of samples first, then of all values; nothing goes on that nobody sees."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector import multiple_nodes
from espalier.app.features.inspector.figures.weights import loss
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.figures.facts import weight_of
from espalier.app.jobs.previews import Previews
from espalier.app.session.session import Session
from espalier.model.formats.integer import Integer
from tests.gui.bert import KEY, QUERY, open_bert
from tests.gui.conftest import FakeRunner
from tests.gui.formats.inspecting import fmt_of

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[InspectorPanel]:
    """The inspector; two nodes have a format."""
    open_bert(session, runner)
    session.set_format((KEY, QUERY), "weight", Integer(8, 8))
    made = InspectorPanel(session)
    made.show()
    yield made
    made.close()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_a_sample_bounds_nothing_and_all_values_follow(
    panel: InspectorPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("espalier.app.features.inspector.figures.weights.FEW", 16)
    monkeypatch.setattr("espalier.app.figures.tensor_chunks.SAMPLE", 4)
    graph, store = session.open_document.graph, session.open_document.store
    found: list[float] = []
    for node in (KEY, QUERY):
        weight = weight_of(graph[node], "weight", graph)
        assert weight and weight.key
        found.append(loss(Integer(8, 8), store.get(weight.key), None).sqnr or 0)
    row, told = panel.precision.rows["weight"], list[str]()
    panel.lowest.measured.connect(lambda port, _: told.append(row.sqnr.text() + row.sqnr.toolTip()))
    session.select((KEY, QUERY))
    qtbot.waitUntil(lambda: row.sqnr.text().startswith("≥"), timeout=60_000)
    assert row.sqnr.text() == f"≥{min(found):.1f} dB" and "sample" not in row.sqnr.toolTip()
    assert len(told) == 2 and told[0].startswith("≈") and told[0].endswith("of samples")
    session.select(())
    session.select((KEY, QUERY))  # known by now
    assert row.sqnr.text() == f"≥{min(found):.1f} dB"


def test_without_a_selection_nothing_is_measured(
    panel: InspectorPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(multiple_nodes, "quick_loss", lambda *given: (asked.append(given), loss(*given))[1])
    session.select((KEY, QUERY))
    session.select(())
    panel.weight.samples.changed.emit()
    later, heard = Previews(panel), list[str]()
    later.ready.connect(lambda slot, key, found: heard.append(slot))
    later.ask("later", 0, lambda stop: time.sleep(0.2))  # what was asked before would have begun by its end
    qtbot.waitUntil(lambda: bool(heard), timeout=60_000)
    later.close()
    assert not asked


def test_a_measurement_that_fails_says_why(
    panel: InspectorPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError("The weights are gone.")

    monkeypatch.setattr(multiple_nodes, "quick_loss", failing)
    session.select((KEY, QUERY))
    row = panel.precision.rows["weight"]
    qtbot.waitUntil(lambda: row.sqnr.toolTip() == "The weights are gone.", timeout=60_000)
    assert not row.sqnr.text()


def test_each_of_several_nodes_is_given_the_range_of_its_own_values(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    graph, store = session.open_document.graph, session.open_document.store
    session.set_format((QUERY,), "weight", Integer(8, 10))
    session.set_format((KEY,), "weight", Integer(6, 2))
    best: dict[str, object] = {}
    for node, fmt in ((KEY, Integer(6, 2)), (QUERY, Integer(8, 10))):
        weight = weight_of(graph[node], "weight", graph)
        assert weight and weight.key
        best[node] = loss(fmt, store.get(weight.key), None).best
    session.select((KEY, QUERY))
    offer = panel.weight.offer
    qtbot.waitUntil(lambda: offer.isVisible() and "1 node" in offer.text(), timeout=60_000)
    steps = len(session.recipe.steps)
    offer.click()
    assert fmt_of(session, KEY, "weight") == best[KEY] != Integer(6, 2)
    assert fmt_of(session, QUERY, "weight") == best[QUERY] == Integer(8, 10)
    session.set_format((KEY, QUERY), "weight", Integer(8, 4))
    qtbot.waitUntil(lambda: offer.isVisible() and "2 nodes" in offer.text(), timeout=60_000)
    offer.click()
    assert fmt_of(session, KEY, "weight") != Integer(8, 4) != fmt_of(session, QUERY, "weight")
    assert len(session.recipe.steps) == steps
    assert Integer(8, 4) not in [f for r in session.recipe.steps[-1].options.rules for f in r.formats.values()]
    qtbot.waitUntil(lambda: not offer.isVisible(), timeout=60_000)


def test_beside_nodes_without_a_format_the_one_that_has_it_is_offered_its_range(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    session.set_format((KEY,), "weight", Integer(6, 2))
    session.set_format((QUERY,), "weight", None)
    session.select((KEY,))
    session.select((KEY, QUERY))  # the node that is shown stays
    offer = panel.weight.offer
    qtbot.waitUntil(lambda: offer.isVisible() and "nodes" not in offer.text(), timeout=60_000)
    offer.click()
    assert fmt_of(session, KEY, "weight") != Integer(6, 2)
    assert "weight" not in session.open_document.graph[QUERY].precision
