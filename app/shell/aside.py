"""The docks are away while no model is open, and come back where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QMainWindow

if TYPE_CHECKING:
    from espalier.app.shell.docks import Docks


class DocksAside:
    """`layout`: where the docks stood before they were hidden; None while they show."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self.layout: QByteArray | None = None

    def place(self, docks: Docks, wanted: bool) -> None:
        """Show them or hide them."""
        if wanted and self.layout is not None:
            docks.restore(self.layout)
            self.layout = None
        elif not wanted and self.layout is None:
            self.layout = self._window.saveState()
            docks.hide_all()
