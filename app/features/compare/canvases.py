"""Two canvases side by side, or overlaid with a movable divider; cameras, groups and selection are linked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QRegion, QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from espalier.app.canvas.view import GraphCanvas
from espalier.app.features.compare.linked_groups import LinkedGroups
from espalier.app.figures.difference import StateComparison, marked_nodes
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Recolouring, tokens
from espalier.app.widgets.heading import Elided
from espalier.model.document.arrangement import UNARRANGED, Arrangement

TITLE_HEIGHT, GAP = 31, 1  # pixels
Mode = Literal["side by side", "one picture"]


class CanvasPair(QWidget):
    """Shows the graphs of a comparison. `node_selected`: ids of A and of B, either empty without a partner."""

    node_selected = Signal(tuple, tuple)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        look = tokens(self)
        self.canvases = GraphCanvas(self, look), GraphCanvas(self, look)
        self.titles = Elided("", "strong"), Elided("", "strong")
        self.facts = QLabel(self), QLabel(self)
        for title, fact, canvas, name in zip(self.titles, self.facts, self.canvases, "AB", strict=True):
            title.setParent(self)
            fact.setProperty("role", "muted")
            canvas.setAccessibleName(tr("Graph of {}", name))
        self.mode: Mode = "side by side"
        self.linked = True
        self.edge = 0.5  # overlaid: the share at the left that shows A
        self._comparison: StateComparison | None = None
        self._line = QWidget(self)  # the divider between A and B when overlaid
        self._line.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._following = False  # while one canvas moves the other
        self._connect()
        self._groups = LinkedGroups(self.canvases, lambda: self.linked, lambda here: self._follow(1 - here, here))
        Recolouring(self, self._recolour)

    def _connect(self) -> None:
        for here, there in ((0, 1), (1, 0)):
            self.canvases[here].camera_moved.connect(lambda i=here, j=there: self._follow(i, j))
            self.canvases[here].selection_changed.connect(lambda ids, i=here, j=there: self._select(i, j, ids))

    def _recolour(self, look: Palette) -> None:
        for canvas in self.canvases:
            canvas.set_palette(look)
        self.update()

    # -- content

    def show_comparison(self, comparison: StateComparison | None, facts: tuple[str, str] = ("", "")) -> None:
        """Show both graphs, their changed nodes outlined."""
        self._comparison = comparison
        graphs = (comparison.a, comparison.b) if comparison is not None else (None, None)
        marks = marked_nodes(comparison.diff) if comparison is not None else (frozenset(), frozenset())
        names = (comparison.name_a, comparison.name_b) if comparison is not None else ("", "")
        for i in (0, 1):
            self.canvases[i].set_graph(graphs[i])
            self.canvases[i].set_changed(marks[i])
            self.titles[i].show_text(f"{'AB'[i]} · {names[i]}" if names[i] else "")
            self.facts[i].setText(facts[i])
        self.show_arrangements(comparison.arrangements if comparison is not None else (UNARRANGED, UNARRANGED))
        self._groups.restart()
        self._arrange()

    def show_arrangements(self, arrangements: tuple[Arrangement, Arrangement]) -> None:
        """Show pins and frames of both."""
        for canvas, arrangement in zip(self.canvases, arrangements, strict=True):
            canvas.set_arrangement(arrangement)

    def partners(self, here: int, ids: Iterable[str]) -> tuple[str, ...]:
        """The partners in the other graph of nodes of graph `here` (0: A)."""
        if self._comparison is None:
            return ()
        pairing = self._comparison.diff.pairing
        pairs = pairing.pairs if here else pairing.back
        return tuple(pairs[i] for i in ids if i in pairs)

    def show_nodes(self, nodes: tuple[str, ...], of: int) -> None:
        """Select nodes of one graph and their partners, and bring the first into view."""
        other = self.partners(of, nodes)
        with _Following(self):
            self.canvases[of].select(nodes)
            self.canvases[1 - of].select(other)
        if nodes:
            self.canvases[of].reveal(nodes[0])
        if other and not self.linked:
            self.canvases[1 - of].reveal(other[0])

    def _select(self, here: int, there: int, ids: tuple[str, ...]) -> None:
        if self._following:
            return
        other = self.partners(here, ids)
        with _Following(self):
            self.canvases[there].select(other)
        self.node_selected.emit(*((ids, other) if here == 0 else (other, ids)))

    # -- linked cameras

    def set_linked(self, linked: bool) -> None:
        """Set whether both cameras move together."""
        self.linked = linked
        if linked:
            self._follow(0, 1)

    def _follow(self, here: int, there: int) -> None:
        """Move the other camera so that the partner of the node in the centre has the same position."""
        leader, follower = self.canvases[here], self.canvases[there]
        if self._following or not self.linked or leader.scene is None or follower.scene is None:
            return
        with _Following(self):
            dx, dy = self._shift(here)
            camera = follower.camera
            camera.scale, camera.x, camera.y = leader.camera.scale, leader.camera.x + dx, leader.camera.y + dy
            follower.moved()

    def _shift(self, here: int) -> tuple[float, float]:
        """Offset, in canvas units, of the partner of the node nearest to the view's centre."""
        leader, follower = self.canvases[here], self.canvases[1 - here]
        assert leader.scene is not None and follower.scene is not None
        layout = leader.scene.layout
        x, y = leader.camera.to_canvas(leader.width() / 2, leader.height() / 2)
        rects = layout.node_rects
        distance = (rects[:, 0] + rects[:, 2] / 2 - x) ** 2 + (rects[:, 1] + rects[:, 3] / 2 - y) ** 2
        for index in np.argsort(distance)[:20].tolist():
            partner = self.partners(here, (layout.tree.ids[layout.nodes[index]],))
            number = follower.scene.layout.tree.index.get(partner[0]) if partner else None
            rect = follower.scene.rect_of(number) if number is not None else None
            if rect is not None:
                return rect[0] - float(rects[index, 0]), rect[1] - float(rects[index, 1])
        return 0.0, 0.0

    # -- layout

    def set_mode(self, mode: Mode) -> None:
        """Side by side, or one picture."""
        self.mode = mode
        self._rearrange()

    def set_edge(self, share: float) -> None:
        """Set the share of the width, from the left, that shows A when overlaid."""
        self.edge = share
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._rearrange()

    def _rearrange(self) -> None:
        """Arrange the canvases for another size; the centre of the view is kept once the user has moved it."""
        canvas = self.canvases[0]
        centre = canvas.camera.to_canvas(canvas.width() / 2, canvas.height() / 2)
        keep = canvas.scene is not None and not canvas.is_first_look
        self._arrange()
        if keep:
            canvas.centre(*centre)
        self._follow(0, 1)

    def _arrange(self) -> None:
        width, height = self.width(), max(self.height() - TITLE_HEIGHT, 0)
        half = (width - GAP) // 2
        halves = QRect(0, 0, half, TITLE_HEIGHT), QRect(half + GAP, 0, width - half - GAP, TITLE_HEIGHT)
        for title, fact, area in zip(self.titles, self.facts, halves, strict=True):
            wide = min(fact.sizeHint().width(), area.width() // 2)
            title.setGeometry(area.adjusted(12, 0, -wide - 20, 0))
            fact.setGeometry(QRect(area.right() - wide - 12, 0, wide, TITLE_HEIGHT))
            fact.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        first, second = self.canvases
        if self.mode == "side by side":
            second.clearMask()
            self._line.hide()
            for canvas, area in zip(self.canvases, halves, strict=True):
                canvas.setGeometry(area.x(), TITLE_HEIGHT, area.width(), height)
            return
        for canvas in self.canvases:
            canvas.setGeometry(0, TITLE_HEIGHT, width, height)
        edge = round(self.edge * width)
        second.raise_()
        second.setVisible(edge < width)
        first.setVisible(edge > 0)
        second.setMask(QRegion(edge, 0, max(width - edge, 1), height))
        self._line.setGeometry(edge - 1, TITLE_HEIGHT, 2, height)
        self._line.setStyleSheet(f"background: {tokens(self).accent};")
        self._line.setVisible(0 < edge < width)
        self._line.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        painter.fillRect(0, 0, self.width(), TITLE_HEIGHT, QColor(look.panel))
        painter.fillRect(0, TITLE_HEIGHT - 1, self.width(), 1, QColor(look.line))
        painter.fillRect((self.width() - GAP) // 2, 0, GAP, self.height(), QColor(look.line))
        painter.end()


class _Following:
    """Context in which one canvas changes the other, which then does not respond."""

    def __init__(self, pair: CanvasPair) -> None:
        self._pair, self._before = pair, False

    def __enter__(self) -> None:
        self._before, self._pair._following = self._pair._following, True

    def __exit__(self, *_: object) -> None:
        self._pair._following = self._before
