"""Section "Applies to" of the inspector: the node, its twins in the other blocks, all of its operation, or saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QPushButton, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.selections_menu import fill_selections
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.twins import alike, twins

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SHOWN_NAME = 22  # characters of a saved selection's name on its button
THIS, TWINS, ALIKE = "This node", "twins", "alike"


class ScopeSection(QWidget):
    """Selects the nodes that an edit applies to.

    The choice is the selection itself: the canvas marks it, and every field of the inspector edits all of it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._node = ""  # the one that the scopes begin at
        self._scopes: dict[str, tuple[str, ...]] = {}
        self._graph: Graph | None = None
        group = QButtonGroup(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(1, 0, 0, 0)  # the border of the first button
        row.setSpacing(0)
        self.buttons = {name: QPushButton(self) for name in (THIS, TWINS, ALIKE)}
        for name, button in self.buttons.items():
            button.setCheckable(True)
            button.setProperty("segment", True)
            button.clicked.connect(lambda _=False, n=name: self._session.select(self._scopes[n]))
            group.addButton(button)
            row.addWidget(button, 1)
        self._menu = QMenu(self)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.saved_button = QPushButton(tr("Saved ▾"), self)
        self.saved_button.setProperty("segment", True)
        self.saved_button.clicked.connect(self._open_menu)
        row.addWidget(self.saved_button)
        self.setAccessibleName(tr("Applies to"))
        session.opened.connect(self._forget)
        session.saved_selections.changed.connect(self._show_saved)
        self._show_saved()
        self.hide()

    def _forget(self) -> None:
        """Let go of the graph of another document, also while the inspector is out of sight."""
        self._node, self._graph, self._scopes = "", None, {}

    def _open_menu(self) -> None:
        self._menu.popup(self.saved_button.mapToGlobal(self.saved_button.rect().bottomLeft()))

    def _fill_menu(self) -> None:
        saved = self._session.saved_selections
        fill_selections(self._menu, saved, self, can_save=bool(self._session.selection))

    def _show_saved(self) -> None:
        """Show the name of the saved selection that edits name in their steps."""
        name = self._session.saved_selections.picked
        short = name if len(name) <= SHOWN_NAME else f"{name[: SHOWN_NAME - 1].rstrip()}…"
        self.saved_button.setText(f"{short.replace('&', '&&') or tr('Saved')} ▾")
        tip = tr('Edits apply to the saved selection "{}", and their steps name it', name)
        self.saved_button.setToolTip(tip if name else tr("Selections that the project keeps under a name"))

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Offer the scopes of a single node; keep them while one of them is selected."""
        ids = tuple(n.id for n in nodes)
        if not ids:  # the graph may be that of a closed document
            self._node, self._graph, self._scopes = "", None, {}
        if len(nodes) == 1 and (nodes[0].id != self._node or graph is not self._graph):
            self._offer(nodes[0], graph)
        chosen = next((name for name, scope in self._scopes.items() if set(scope) == set(ids)), None)
        self.setVisible(bool(ids))
        self._show_saved()
        for name, button in self.buttons.items():
            button.setVisible(chosen is not None and name in self._scopes)
            button.setChecked(name == chosen)

    def _offer(self, node: Node, graph: Graph) -> None:
        self._node, self._graph = node.id, graph
        same, every = twins(graph, node), alike(graph, node)
        self._scopes = {THIS: (node.id,)}
        if len(same) > 1:
            self._scopes[TWINS] = same
        if len(every) > 1 and set(every) != set(same):
            self._scopes[ALIKE] = every
        texts = {THIS: tr(THIS), TWINS: tr("{} twins", len(same)), ALIKE: tr("All {} {}", len(every), node.op)}
        tips = {
            THIS: tr("Edits apply to this node alone"),
            TWINS: tr("The nodes at the same place of the other blocks"),
            ALIKE: tr("All nodes of the operation {}", node.op),
        }
        for name, button in self.buttons.items():
            button.setText(texts[name].replace("&", "&&"))
            button.setToolTip(tips[name])
