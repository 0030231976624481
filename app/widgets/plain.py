"""A style that shows the texts of all labels, tooltips and message boxes as they are.

Qt reads a text with <a href> or <img src> in it as rich text, and names come from files. A label that is to show rich
text says so by `setTextFormat`, and escapes what it did not write itself.
"""

from __future__ import annotations

from typing import Any, cast

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLayoutItem, QProxyStyle, QWidget


class PlainStyle(QProxyStyle):
    """Makes each label plain that does not say what it is, before it is shown; a tooltip is a label of Qt's own."""

    def polish(self, what: Any) -> Any:
        """As Qt's, of a widget, an application or a palette."""
        held: Any = _freed(what) if isinstance(what, QLayoutItem) else what
        if isinstance(held, QLabel) and held.textFormat() == Qt.TextFormat.AutoText:
            held.setTextFormat(Qt.TextFormat.PlainText)
        return super().polish(cast("QWidget", held))


def _freed(item: QLayoutItem) -> QWidget:
    """The widget that has the address of an item which is gone.

    Items are no QObjects: PySide does not hear of their end, takes the widget for the item, and the error of a method
    that Qt calls ends the process.
    """
    bound: Any = shiboken6
    (address,) = bound.getCppPointer(item)
    bound.invalidate(item)
    found = bound.wrapInstance(address, QWidget)
    if not found.inherits("QLabel"):
        return found
    bound.invalidate(found)  # else it would be given again
    return bound.wrapInstance(address, QLabel)


def rich() -> QLabel:
    """A label for rich text of our own."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.RichText)
    return label
