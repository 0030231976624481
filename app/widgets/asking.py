"""Where widgets ask what a word means; the window answers."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QHeaderView, QListWidget, QMenu, QWidget

from espalier.app.explanations import explain
from espalier.app.translation import tr


class Asking(QObject):
    """`asked`: a word, and the position on the screen where its meaning is shown."""

    asked = Signal(str, QPoint)


ASKING = Asking()


def offer_meaning(widget: QWidget, word_at: Callable[[QPoint], str]) -> None:
    """Give a widget a context menu that asks for the meaning of the word at a point of it, if it has one."""

    def offer(point: QPoint) -> None:
        word = word_at(point)
        if explain(word):
            corner = widget.mapToGlobal(point)
            menu = QMenu(widget)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.addAction(tr("What is “{}”?", word).replace("&", "&&"), lambda: ASKING.asked.emit(word, corner))
            menu.popup(corner)

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(offer)


def header_text(header: QHeaderView, point: QPoint) -> str:
    """The title of the section of a header at a point; empty beside the sections."""
    section = header.logicalIndexAt(point)
    model = header.model()
    if section < 0 or model is None:
        return ""
    text = model.headerData(section, header.orientation(), Qt.ItemDataRole.DisplayRole)
    return str(text or "").rstrip(" ▴▾")


def item_text(items: QListWidget, point: QPoint) -> str:
    """The text of the item at a point of a list."""
    item = items.itemAt(point)
    return plain_item(item.text()) if item is not None else ""


def plain_item(text: str) -> str:
    """The name in the text of an item, which may add parameters."""
    return text.partition(" · ")[0]
