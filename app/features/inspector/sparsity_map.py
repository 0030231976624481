"""Section with the sparsity map of a weight, also in a window of its own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.charts.mask_map import MaskMap
from espalier.app.features.inspector.figures.masks import Matrix, Picture, Region, loader, picture
from espalier.app.figures.facts import node_path
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count, percent
from espalier.app.translation import error_text, tr
from espalier.app.widgets.heading import heading, link
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import view_at
from espalier.passes.unpruned import prunable

if TYPE_CHECKING:
    from collections.abc import Callable

    from espalier.app.session.session import Session

HINT = tr("Ctrl+wheel: zoom; drag: pan; double click: show all")


class SparsityMapView(QWidget):
    """A sparsity map with its description; pictures are computed in the previews' thread."""

    def __init__(self, session: Session, eager: bool) -> None:
        super().__init__()
        self._session = session
        self._previews = Previews(self, until=session.opened)
        self._previews.ready.connect(self._ready)
        self._previews.failed.connect(lambda _, error: self.description.setText(error_text(error)))
        self._key: Hashable = None
        self._read: Callable[[], Matrix] | None = None
        self.map = MaskMap(eager)
        self.map.wanted.connect(self._ask)
        self.description = QLabel(wordWrap=True)
        self.description.setProperty("role", "small")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.map, 1)
        column.addWidget(self.description)

    def show_node(self, node: Node | None, graph: Graph) -> None:
        """Show the weight of a node; None: clear."""
        name = weight_at(node, "weight", graph) if node else None
        document, weight = self._session.document, graph.weights.get(name or "")
        if node is None or document is None or weight is None or weight.key is None or not weight.elements:
            self._key = self._read = None
            self.map.show_shape(None)
            return
        sparsity, view = node.sparsity.get("weight"), view_at(node, "weight")
        mask = sparsity.mask if sparsity else None
        if (weight.key, mask, view) == self._key:
            return
        self._key = (weight.key, mask, view)
        store = document.store
        self._read = loader(partial(store.get, weight.key), partial(store.get, mask) if mask else None, view)
        shape = view.shape(weight.shape) if view else weight.shape
        rows, columns = weight.elements // max(shape[-1], 1), shape[-1]
        self.map.show_shape((rows, columns))
        share = (
            tr("{} pruned · {}", percent(sparsity.zeros / weight.elements, 1), sparsity.label)
            if sparsity and mask
            else tr("not pruned")
        )
        self.description.setText(tr("{} outputs × {} inputs · {}", count(rows), count(columns), share))

    def close_previews(self) -> None:
        """Stop running previews."""
        self._previews.close()

    def _ask(self, region: Region, cells: tuple[int, int]) -> None:
        read = self._read
        if read is None:
            return
        key = ("map", self._key, region, cells)

        def work(stop: Stop) -> Picture:
            return picture(read(), region, cells, stop)

        cached = self._previews.ask("map", key, work)
        if cached is not None:
            self._ready("map", key, cached)

    def _ready(self, slot: str, key: object, picture_: Picture) -> None:
        self.map.show_picture(picture_)


class SparsityMapSection(QWidget):
    """Sparsity map of the first prunable selected node."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._node: Node | None = None
        self.view = SparsityMapView(session, eager=False)
        self.view.map.setFixedHeight(150)
        self.view.map.setToolTip(HINT)
        self.large_window: SparsityMapWindow | None = None
        larger = link(tr("Larger"), self.enlarge)
        larger.setToolTip(tr("Open the map in a window, down to single elements"))
        top = QHBoxLayout()
        top.addWidget(heading(tr("Sparsity pattern")), 1)
        top.addWidget(larger)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(top)
        column.addWidget(self.view)

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the map of the first of these nodes with a prunable stored weight."""
        self._node = next((n for n in nodes if prunable(n, graph) and _stored(n, graph)), None)
        self.setVisible(self._node is not None)
        self.view.show_node(self._node, graph)
        if self.large_window is not None and self.large_window.isVisible() and self._node is not None:
            self.large_window.show_node(self._node, graph)

    def enlarge(self) -> None:
        """Open the map in a window that follows the selection."""
        document = self._session.document
        if self._node is None or document is None:
            return
        if self.large_window is None:
            self.large_window = SparsityMapWindow(self._session, self)
        self.large_window.show_node(self._node, document.graph)
        self.large_window.show()
        self.large_window.raise_()

    def close_previews(self) -> None:
        """Stop running previews and close the window."""
        self.view.close_previews()
        if self.large_window is not None:
            self.large_window.view.close_previews()
            self.large_window.close()


class SparsityMapWindow(QDialog):
    """Window with a large sparsity map."""

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.view = SparsityMapView(session, eager=True)
        hint = QLabel(tr("Wheel: zoom; drag: pan; double click: show all. Orange is pruned; "
                      "bars at the edges: kept share of rows and columns."), wordWrap=True)  # fmt: skip
        hint.setProperty("role", "small")
        column = QVBoxLayout(self)
        column.addWidget(self.view, 1)
        column.addWidget(hint)
        self.resize(760, 720)

    def show_node(self, node: Node, graph: Graph) -> None:
        """Show the weight of a node."""
        self.setWindowTitle(tr("Sparsity pattern of {}", node_path(node)))
        self.view.show_node(node, graph)

    def closeEvent(self, event: QCloseEvent) -> None:
        self.view.close_previews()
        super().closeEvent(event)


def _stored(node: Node, graph: Graph) -> bool:
    weight = graph.weights.get(weight_at(node, "weight", graph) or "")
    return weight is not None and weight.key is not None
