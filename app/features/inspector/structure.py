"""What the rows and columns of a layer belong to: heads, neurons or channels, and where else these lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.parts import FactRows
from espalier.app.figures.facts import Fact
from espalier.app.figures.parts import Stop
from espalier.app.figures.structure import KNOWN, Same
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.heading import heading
from espalier.model.graph.graph import Graph, Node
from espalier.passes.structure.summary import ties

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MOST = 4  # rows of one node


class StructureSection(QWidget):
    """Rows for one node with a weight; found in the previews' thread."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._previews = Previews(self, keep=8)
        self._previews.ready.connect(lambda _, __, found: self._show(found))
        self._previews.failed.connect(lambda *_: self.hide())
        self.rows, self.words = FactRows(), QLabel(wordWrap=True)
        self.words.setProperty("role", "small")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading("Structure"))
        column.addWidget(self.rows)
        column.addWidget(self.words)
        self.hide()

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show what one node's weight is part of; nothing for several."""
        node = nodes[0] if len(nodes) == 1 else None
        if node is None or graph.runs == "module" or not ("weight" in node.ports or node.call == "get_attr"):
            self._previews.forget("structure")
            self.hide()
            return

        def work(_: Stop) -> list[tuple[str, str, str]]:
            return ties(node, KNOWN.of(graph))

        found = self._previews.ask("structure", (node.id, Same(graph)), work)
        if found is not None:
            self._show(found)

    def _show(self, found: list[tuple[str, str, str]]) -> None:
        self.setVisible(bool(found))
        shown = found[:MOST]
        self.rows.show_facts([Fact(role, count, text) for role, count, text in shown])
        lines = [f"{role.capitalize()}: {text}." for role, _, text in shown]
        lines += [f"And {len(found) - MOST} more."] if len(found) > MOST else []
        self.words.setText("\n".join(lines))

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()
