"""The configuration of a node on the clipboard, as text."""

from __future__ import annotations

import json

from PySide6.QtGui import QGuiApplication

from espalier.model.document.codec import decode, encode
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.node import Node
from espalier.passes.choices.configuration import Configuration, configuration_of

KEY, LONGEST = (
    "espalier configuration",
    100_000,
)  # largest length in characters, since the clipboard may hold any text


def copy(node: Node) -> Configuration:
    """Put the configuration of a node on the clipboard."""
    configuration = configuration_of(node)
    QGuiApplication.clipboard().setText(json.dumps({KEY: encode(configuration)}))
    return configuration


def pasted() -> Configuration:
    """The configuration on the clipboard; raises OptionsError without one."""
    text = QGuiApplication.clipboard().text()
    try:
        data = json.loads(text) if len(text) <= LONGEST else None
        if isinstance(data, dict) and set(data) == {KEY}:
            return decode(Configuration, data[KEY])
    except (ValueError, RecursionError, EspalierError):
        pass
    raise OptionsError("There is no configuration on the clipboard.", "Select a node and press Ctrl+C first.")
