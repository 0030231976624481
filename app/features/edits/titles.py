"""The field for editing the title of a card or a frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit

from espalier.app.figures.facts import node_title
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.model.graph.annotation import LONGEST_TITLE
from espalier.model.graph.graph import Node

if TYPE_CHECKING:
    from espalier.app.canvas.camera import Area
    from espalier.app.canvas.view import GraphCanvas

LEAST_WIDTH, HEIGHT = 160, 26  # pixels


class TitleField(QLineEdit):
    """Enter or a click elsewhere sets the title; Escape cancels.

    `own`: what an empty title stands for; `rect`: where it is typed, in canvas units; `always`: give a title that was
    not changed, too; `several`: give one that was typed again.
    """

    def __init__(
        self,
        canvas: GraphCanvas,
        title: str,
        own: str,
        rect: Area | None,
        give: Callable[[str], object],
        *,
        several: bool = False,
        always: bool = False,
    ) -> None:
        super().__init__(title, canvas)
        self._give, self._before, self._over = give, self.text(), False
        self._several, self._always = several, always
        self.setMaxLength(LONGEST_TITLE)
        self.setAccessibleName(tr("Title"))
        self.setPlaceholderText(own)
        self.setToolTip(tr("Enter sets the title; empty restores its own name. Escape cancels."))
        self._place(canvas, rect)
        self.selectAll()
        self.show()
        self.setFocus(Qt.FocusReason.PopupFocusReason)
        self.returnPressed.connect(lambda: self._end(True))

    def _place(self, canvas: GraphCanvas, rect: Area | None) -> None:
        """Place the field on the card, or in the centre of the canvas if the card is not visible."""
        camera = canvas.camera
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
        if accept and (self._always or text != self._before or (self._several and self.isModified())):
            self._give(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self._end(False)
        else:
            super().keyPressEvent(event)
            event.accept()  # Enter would expand what is selected, and other keys are of the canvas, too

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
            self._end(True)


def type_title(canvas: GraphCanvas, nodes: Sequence[Node], give: Callable[[str], object]) -> TitleField:
    """Ask for the title of nodes on the card of the first; an empty title is the node's own name."""
    node, scene = nodes[0], canvas.scene
    number = scene.layout.tree.index.get(node.id) if scene else None
    rect = scene.rect_of(number) if scene is not None and number is not None else None
    name = node_title(node) if not node.annotation.title else node.id
    own = name if len(nodes) == 1 else plural(len(nodes), "node")
    return TitleField(canvas, node.annotation.title or node_title(node), own, rect, give, several=len(nodes) > 1)
