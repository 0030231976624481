"""The context menu of the canvas: edits of the nodes under the pointer, and to which nodes they apply."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QMenu, QWidget, QWidgetAction

from espalier.app.features.edits import offers
from espalier.app.features.edits.offers import Offer
from espalier.app.words import plural
from espalier.model.graph.graph import Graph, Node
from espalier.passes.edits.base import Edit
from espalier.passes.edits.set_attr import SetAttr
from espalier.passes.transform.edit_graph import EditGraphOptions

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint

    from espalier.app.host import Host


class NodeMenu(QMenu):
    """Edits of the selected nodes, of their twins in other blocks, or of all of the same operation."""

    def __init__(self, host: Host, graph: Graph, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._host, self._graph = host, graph
        self.setToolTipsVisible(True)
        chosen = [i for i in host.session.selection if i in graph.nodes]
        self._groups: list[tuple[str, ...]] = [tuple(chosen)]
        node = graph.nodes[chosen[0]]
        title = f"{node.id} · {node.op}" if len(chosen) == 1 else plural(len(chosen), "node")
        self.addAction(title.replace("&", "&&")).setEnabled(False)  # what it is about; a style may not show sections
        self.addSeparator()
        if len(chosen) == 1:
            self._add_scope(node)
        self._menus: list[Callable[[], None]] = []
        self.bypass = self._row(self, offers.bypass(graph, chosen))
        self._submenu("Replace by", offers.replacements(self._nodes()))
        self._submenu("Insert after", offers.insertions(graph, self._nodes()))
        self._add_attributes()
        if len(chosen) == 1:
            self._row(self, offers.output(graph, node))
        if graph.runs == "module":
            for action in self.actions():
                action.setEnabled(False)
                action.setToolTip(offers.RECORDED)

    def _add_scope(self, node: Node) -> None:
        """Which nodes an edit applies to: one control for all rows."""
        twins, alike = offers.twins(self._graph, node), offers.alike(self._graph, node)
        texts = ["this node"]
        if len(twins) > 1:
            self._groups.append(twins)
            texts.append(f"its {len(twins)} twins, one a block")
        if len(alike) > 1 and set(alike) != set(twins):
            self._groups.append(alike)
            texts.append(f"all {len(alike)} {node.op}")
        self.scope = QComboBox()
        self.scope.addItems(texts)
        self.scope.setAccessibleName("Apply to")
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(12, 4, 12, 4)
        line.addWidget(QLabel("Apply to"))
        line.addWidget(self.scope, 1)
        action = QWidgetAction(self)
        action.setDefaultWidget(row)
        self.addAction(action)

    def ids(self) -> tuple[str, ...]:
        """The nodes that an edit applies to."""
        place = self.scope.currentIndex() if hasattr(self, "scope") else 0
        return self._groups[place]

    def _nodes(self) -> list[Node]:
        return [self._graph.nodes[i] for i in self._groups[0]]

    def _row(self, menu: QMenu, offer: Offer) -> None:
        action = menu.addAction(offer.title, lambda: self.apply(offer.edit, offer.title))
        action.setEnabled(not offer.reason)
        action.setToolTip(offer.reason)

    def _submenu(self, title: str, rows: Sequence[Offer]) -> None:
        menu = self.addMenu(title)
        menu.setEnabled(bool(rows))
        for offer in rows:
            self._row(menu, offer)

    def _add_attributes(self) -> None:
        """A line for each constructor argument; Enter applies it."""
        values = offers.attributes(self._nodes())
        menu = self.addMenu("Set")
        menu.setEnabled(bool(values))
        for name, value in values.items():
            row = QWidget()
            line = QHBoxLayout(row)
            line.setContentsMargins(12, 2, 12, 2)
            field = QLineEdit(repr(value))
            field.setAccessibleName(name)
            field.returnPressed.connect(lambda n=name, f=field: self._set(n, f.text()))
            line.addWidget(QLabel(name), 1)
            line.addWidget(field)
            action = QWidgetAction(menu)
            action.setDefaultWidget(row)
            menu.addAction(action)

    def _set(self, name: str, text: str) -> None:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        self.close()
        self.apply(SetAttr(name=name, value=list(value) if isinstance(value, tuple) else value), f"Set {name}")

    def apply(self, edit: Edit, title: str) -> None:
        """Append the edit of the chosen nodes as a step."""
        options = EditGraphOptions((offers.target(edit, self.ids()),))
        self._host.session.run_pass("edit_graph", options)


def connect(host: Host) -> None:
    """Follow the canvas: its context menu, and Delete."""
    host.canvas.menu_requested.connect(lambda spot: show_menu(host, spot))
    host.canvas.delete_pressed.connect(lambda: bypass(host))


def show_menu(host: Host, spot: QPoint) -> None:
    """Open the menu of the selected nodes at a point of the screen."""
    document = host.session.document
    if document is None or not host.session.selection:
        return
    menu = NodeMenu(host, document.graph, host.canvas)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)


def bypass(host: Host) -> None:
    """Bypass the selected nodes."""
    document = host.session.document
    chosen = host.session.selection
    if document is not None and chosen:
        offer = offers.bypass(document.graph, chosen)
        if offer.reason:
            host.banner.show_message(offer.reason)  # type: ignore[attr-defined]
        else:
            host.session.run_pass("edit_graph", EditGraphOptions((offers.target(offer.edit, chosen),)))
