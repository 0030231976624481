"""What the tests of the inspector share: to read it and to type in it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.session.session import Session


def facts(panel: InspectorPanel) -> dict[str, str]:
    return {f.name: f.value for f in panel.facts.facts}


def write(panel: InspectorPanel, port: str, name: str, text: str) -> None:
    field = panel.precision.rows[port].editor.widgets[name]
    field.setFocus()
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def choose(panel: InspectorPanel, port: str, name: str) -> None:
    choice = panel.precision.rows[port].editor.choice
    choice.setCurrentIndex(choice.values.index(name))
    choice.activated.emit(choice.currentIndex())


def fmt_of(session: Session, node: str, port: str) -> object:
    assert session.document is not None
    held = session.document.graph.nodes[node].precision.get(port)
    return held.format if held else None
