"""The field for editing a node's title on its card."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit

from espalier.app.figures.facts import node_title
from espalier.app.number_text import plural
from espalier.model.graph.annotation import LONGEST_TITLE
from espalier.model.graph.graph import Node

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas

LEAST_WIDTH, HEIGHT = 160, 26  # pixels


class TitleField(QLineEdit):
    """Enter or a click elsewhere sets the title; Escape cancels. An empty title restores the node's name."""

    def __init__(self, canvas: GraphCanvas, nodes: list[Node], give: Callable[[str], object]) -> None:
        super().__init__(nodes[0].annotation.title or node_title(nodes[0]), canvas)
        self._give, self._before, self._over, self._several = give, self.text(), False, len(nodes) > 1
        self.setMaxLength(LONGEST_TITLE)
        self.setAccessibleName("Title")
        default = node_title(nodes[0]) if not nodes[0].annotation.title else nodes[0].id
        self.setPlaceholderText(default if len(nodes) == 1 else plural(len(nodes), "node"))
        self.setToolTip("Enter sets the title; empty restores the node's name. Escape cancels.")
        self._place(canvas, nodes[0])
        self.selectAll()
        self.show()
        self.setFocus(Qt.FocusReason.PopupFocusReason)
        self.returnPressed.connect(lambda: self._end(True))

    def _place(self, canvas: GraphCanvas, node: Node) -> None:
        """Place the field on the card, or in the centre of the canvas if the card is not visible."""
        scene, camera = canvas.scene, canvas.camera
        number = scene.layout.tree.index.get(node.id) if scene else None
        rect = scene.rect_of(number) if scene is not None and number is not None else None
        x, y = (canvas.width() - LEAST_WIDTH) / 2, (canvas.height() - HEIGHT) / 2
        width = float(LEAST_WIDTH)
        if rect is not None:
            left, top = (rect[0] - camera.x) * camera.scale, (rect[1] - camera.y) * camera.scale
            if 0 <= left < canvas.width() - 40 and 0 <= top < canvas.height() - HEIGHT:
                x, y, width = left, top, max(rect[2] * camera.scale, LEAST_WIDTH)
        x = max(0.0, min(x, canvas.width() - width))
        self.setGeometry(int(x), int(y), int(width), HEIGHT)

    def _end(self, accept: bool) -> None:
        if self._over:
            return
        self._over = True
        text = self.text().strip()
        self.hide()
        self.deleteLater()
        parent = self.parentWidget()
        if parent is not None:
            parent.setFocus(Qt.FocusReason.OtherFocusReason)
        if accept and (text != self._before or (self._several and self.isModified())):
            self._give(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self._end(False)
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
            self._end(True)
