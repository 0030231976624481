"""Section on the structure of a layer's weight: heads, neurons or channels, and the layers tied to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.widgets import FactRows
from espalier.app.figures.facts import Fact
from espalier.app.figures.structure_cache import STRUCTURES, Same
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.translation import message, tr
from espalier.app.widgets.heading import heading
from espalier.model.graph.graph import Graph, Node
from espalier.passes.structure.summary import ties

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_ROWS = 4  # rows shown


class StructureSection(QWidget):
    """Rows for one node with a weight, computed in the previews' thread."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._previews = Previews(self, cache_size=8, until=session.opened)
        self._previews.ready.connect(lambda _, __, found: self._show(found))
        self._previews.failed.connect(lambda *_: self.hide())
        self.rows, self.description = FactRows(), QLabel(wordWrap=True)
        self.description.setProperty("role", "small")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("Structure")))
        column.addWidget(self.rows)
        column.addWidget(self.description)
        self.hide()

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the structure of a single node's weight; hidden for several."""
        node = nodes[0] if len(nodes) == 1 else None
        if node is None or graph.runs == "module" or not ("weight" in node.ports or node.call == "get_attr"):
            self._previews.forget("structure")
            self.hide()
            return

        def work(_: Stop) -> list[tuple[str, str, str]]:
            return ties(node, STRUCTURES.of(graph))

        cached = self._previews.ask("structure", (node.id, Same(graph)), work)
        if cached is not None:
            self._show(cached)

    def _show(self, rows: list[tuple[str, str, str]]) -> None:
        self.setVisible(bool(rows))
        shown = rows[:MAX_ROWS]
        self.rows.show_facts([Fact(role, _amount(amount), message(text)) for role, amount, text in shown])
        lines = [f"{tr(role).capitalize()}: {message(text)}." for role, _, text in shown]
        lines += [tr("And {} more.", len(rows) - MAX_ROWS)] if len(rows) > MAX_ROWS else []
        self.description.setText("\n".join(lines))

    def close_previews(self) -> None:
        """Stop running previews."""
        self._previews.close()


def _amount(text: str) -> str:
    """`12 heads × 64` with the unit translated."""
    number, _, rest = text.partition(" ")
    unit, times, each = rest.partition(" × ")
    return f"{number} {tr(unit)}{times}{each}"
