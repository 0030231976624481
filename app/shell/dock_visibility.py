"""Hides the docks while no model is open and restores their layout afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QMainWindow

if TYPE_CHECKING:
    from espalier.app.shell.docks import Docks


class DockVisibility:
    """`layout`: the state of the docks before they were hidden; None while they show."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self.layout: QByteArray | None = None

    def set_visible(self, docks: Docks, visible: bool) -> None:
        """Show or hide all docks."""
        if visible and self.layout is not None:
            docks.restore(self.layout)
            self.layout = None
        elif not visible and self.layout is None:
            self.layout = self._window.saveState()
            docks.hide_all()
