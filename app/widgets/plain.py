"""A style that shows the texts of all labels, tooltips and message boxes as they are.

Qt reads a text with <a href> or <img src> in it as rich text, and names come from files. A label that is to show rich
text says so by `setTextFormat`, and escapes what it did not write itself.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QProxyStyle


class PlainStyle(QProxyStyle):
    """Makes each label plain that does not say what it is, before it is shown; a tooltip is a label of Qt's own."""

    def polish(self, what: Any) -> Any:
        """As Qt's, of a widget, an application or a palette."""
        if isinstance(what, QLabel) and what.textFormat() == Qt.TextFormat.AutoText:
            what.setTextFormat(Qt.TextFormat.PlainText)
        return super().polish(what)


def rich() -> QLabel:
    """A label for rich text of our own."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.RichText)
    return label
