"""The context menu of nodes: edits of the nodes under the pointer, and their scope."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
    QWidgetAction,
)

from espalier.app.features.edits import actions, arrange_menu, offers
from espalier.app.features.edits.offers import Offer
from espalier.app.features.edits.titles import type_title
from espalier.app.number_text import plural
from espalier.app.theme import TAGS
from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError
from espalier.model.graph.annotation import LONGEST_NOTE
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.twins import alike, twins
from espalier.passes.edits.annotate import Note, Rename, Tag
from espalier.passes.edits.base import Edit
from espalier.passes.edits.set_attr import SetAttr

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint

    from espalier.app.host import Host


class NodeMenu(QMenu):
    """Edits of the selected nodes, of their twins in other blocks, or of all nodes of the same operation."""

    def __init__(self, host: Host, graph: Graph, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._host, self._graph = host, graph
        self.setToolTipsVisible(True)
        chosen = [i for i in host.session.selection if i in graph.nodes]
        self._groups: list[tuple[str, ...]] = [tuple(chosen)]
        node = graph.nodes[chosen[0]]
        title = f"{node.id} · {node.op}" if len(chosen) == 1 else plural(len(chosen), "node")
        self.addAction(title.replace("&", "&&")).setEnabled(False)  # the title; some styles do not show sections
        self.addSeparator()
        if len(chosen) == 1:
            self._add_scope(node)
        self._add_edits(chosen, node)
        self.addSeparator()
        self._add_texts(node)
        self.addSeparator()
        self._add_configuration()
        self.addSeparator()
        arrange_menu.add_rows(host, self, chosen)

    def _add_scope(self, node: Node) -> None:
        """Add the scope of edits, one control for all rows."""
        same, every = twins(self._graph, node), alike(self._graph, node)
        texts = [tr("this node")]
        if len(same) > 1:
            self._groups.append(same)
            texts.append(tr("its {} twins, one a block", len(same)))
        if len(every) > 1 and set(every) != set(same):
            self._groups.append(every)
            texts.append(tr("all {} {}", len(every), node.op))
        self.scope = QComboBox()
        self.scope.addItems(texts)
        self.scope.setAccessibleName(tr("Apply to"))
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(12, 4, 12, 4)
        line.addWidget(QLabel(tr("Apply to")))
        line.addWidget(self.scope, 1)
        self._widget(self, row)

    def ids(self) -> tuple[str, ...]:
        """The nodes that an edit applies to."""
        index = self.scope.currentIndex() if hasattr(self, "scope") else 0
        return self._groups[index]

    def _nodes(self) -> list[Node]:
        return [self._graph.nodes[i] for i in self._groups[0]]

    # -- rows

    def _add_edits(self, chosen: list[str], node: Node) -> None:
        """Add edits of the model, disabled for a model recorded from a run."""
        first = len(self.actions())
        bypass = self._row(self, offers.bypass(self._graph, chosen))
        bypass.setText(tr("Bypass\tDel"))
        if all(n.annotation.muted for n in self._nodes()):
            row = self.addAction(tr("Unmute\tM"), lambda: actions.unmute(self._host, self.ids()))
            if actions.unmuted(self._host, chosen) is None:
                row.setEnabled(False)
                row.setToolTip(actions.NO_MUTE)
        else:
            self._row(self, offers.mute(self._graph, chosen)).setText(tr("Mute\tM"))
        self._submenu(tr("Replace by"), offers.replacements(self._nodes()))
        self._submenu(tr("Insert after"), offers.insertions(self._graph, self._nodes()))
        self.addAction(tr("Add operation…\tShift+A"), partial(self._host.canvas.operation_wanted.emit, None, None))
        self._add_attributes()
        if len(chosen) == 1:
            self._row(self, offers.output(self._graph, node))
            self._row(self, offers.duplicate(self._graph, node)).setText(tr("Duplicate\tCtrl+D"))
        if self._graph.runs == "module":
            for action in self.actions()[first:]:
                action.setEnabled(False)
                action.setToolTip(offers.RECORDED)

    def _add_texts(self, node: Node) -> None:
        """Add notes, titles and tags, which do not change the computation."""
        self.addAction(tr("Rename…\tF2"), self._rename)
        menu = self.addMenu(tr("Note"))
        box = QWidget()
        column = QVBoxLayout(box)
        column.setContentsMargins(12, 6, 12, 6)
        field = QPlainTextEdit(node.annotation.note)
        field.setAccessibleName(tr("Note"))
        field.setFixedSize(280, 96)
        button = QPushButton(tr("Save note"))
        button.clicked.connect(lambda: self._write(Note(text=field.toPlainText()[:LONGEST_NOTE])))
        column.addWidget(field)
        column.addWidget(button)
        self._widget(menu, box)
        menu.aboutToShow.connect(field.setFocus)
        tags = self.addMenu(tr("Colour tag"))
        for colour in TAGS:
            change = partial(self._write, Tag(colour=colour))  # type: ignore[arg-type]
            row = tags.addAction(arrange_menu.swatch(TAGS[colour]), tr(colour), change)
            row.setCheckable(True)
            row.setChecked(node.annotation.colour == colour)
        tags.addAction(tr("none"), partial(self._write, Tag())).setEnabled(bool(node.annotation.colour))

    def _add_configuration(self) -> None:
        self.addAction(tr("Copy configuration\tCtrl+C"), partial(actions.copy, self._host))
        self.addAction(tr("Paste configuration\tCtrl+V"), self._paste)

    def _row(self, menu: QMenu, offer: Offer) -> QAction:
        action = menu.addAction(offer.title, lambda: self.apply(offer.edit))
        action.setEnabled(not offer.reason)
        action.setToolTip(offer.reason)
        return action

    def _submenu(self, title: str, rows: Sequence[Offer]) -> None:
        menu = self.addMenu(title)
        menu.setEnabled(bool(rows))
        for offer in rows:
            self._row(menu, offer)

    @staticmethod
    def _widget(menu: QMenu, widget: QWidget) -> None:
        action = QWidgetAction(menu)
        action.setDefaultWidget(widget)
        menu.addAction(action)

    def _add_attributes(self) -> None:
        """Add a field per constructor argument; Enter applies it."""
        values = offers.attributes(self._nodes())
        menu = self.addMenu(tr("Set"))
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
            self._widget(menu, row)

    # -- actions

    def _set(self, name: str, text: str) -> None:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        self.close()
        self.apply(SetAttr(name=name, value=list(value) if isinstance(value, tuple) else value))

    def _rename(self) -> None:
        ids = self.ids()
        type_title(self._host.canvas, [self._graph.nodes[i] for i in ids],
                   lambda text: actions.apply(self._host, Rename(name=text), ids))  # fmt: skip

    def _write(self, edit: Edit) -> None:
        self.close()
        self.apply(edit)

    def _paste(self) -> None:
        self._host.session.select(self.ids())
        actions.paste(self._host)

    def apply(self, edit: Edit) -> None:
        """Add the edit of the chosen nodes to the recipe, or show its error."""
        try:
            actions.apply(self._host, edit, self.ids())
        except EspalierError as error:
            self._host.banner.show_message(message(error.message), message(error.hint))


def connect(host: Host) -> None:
    """Connect the canvas to the menu of nodes."""
    host.canvas.menu_requested.connect(partial(show_menu, host))


def show_menu(host: Host, spot: QPoint) -> None:
    """Open the menu of the selected nodes at a point of the screen."""
    document = host.session.document
    if document is None or not host.session.selection:
        return
    menu = NodeMenu(host, document.graph, host.canvas)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)
