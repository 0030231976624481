"""A style that shows the texts of all labels, tool tips and message boxes as plain text.

Qt would render a text with <a href> or <img src> as rich text, and names come from files. A label for rich text sets
its format with `setTextFormat` and escapes all foreign text.
"""

from __future__ import annotations

from typing import Any, cast

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLayoutItem, QProxyStyle, QWidget


class PlainTextStyle(QProxyStyle):
    """Sets each label of automatic text format to plain text before it is shown; a tool tip is such a label."""

    def polish(self, what: Any) -> Any:
        """Polish a widget, an application or a palette."""
        target: Any = _real_widget(what) if isinstance(what, QLayoutItem) else what
        if isinstance(target, QLabel) and target.textFormat() == Qt.TextFormat.AutoText:
            target.setTextFormat(Qt.TextFormat.PlainText)
        return super().polish(cast("QWidget", target))


def _real_widget(item: QLayoutItem) -> QWidget:
    """The widget at the address of a deleted layout item.

    Layout items are not QObjects: PySide does not notice their deletion and wraps a new widget at the same address as
    the old item. The resulting TypeError in a method called by Qt would end the process.
    """
    bound: Any = shiboken6
    (address,) = bound.getCppPointer(item)
    bound.invalidate(item)
    widget = bound.wrapInstance(address, QWidget)
    if not widget.inherits("QLabel"):
        return widget
    bound.invalidate(widget)  # otherwise the next call would return it again
    return bound.wrapInstance(address, QLabel)


def rich_label() -> QLabel:
    """A label for rich text of the program itself."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.RichText)
    return label
