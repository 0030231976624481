"""Makes what the window does not need for its first paint, a part at a turn, so that it answers in between."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.window import Window

MODULES = (
    "pyqtgraph",
    *(
        f"espalier.app.features.{name}.panel"
        for name in ("inspector", "training", "sweep", "search", "allocate", "hardware")
    ),
    "espalier.app.shell.docks",
)


class Furnishing:
    """The docks of a window in the making: first what takes long to import, then panel by panel."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._docks: Docks | None = None

    def go_on(self) -> bool:
        """Do one part; False when all is done."""
        if module := next((m for m in MODULES if m not in sys.modules), None):
            importlib.import_module(module)
            return True
        return self._begun().grow()

    def finish(self) -> Docks:
        """Do all that is left."""
        docks = self._begun()
        while docks.grow():
            continue
        return docks

    def _begun(self) -> Docks:
        from espalier.app.shell.docks import Docks

        if self._docks is None:
            self._docks = Docks(self._window)
        return self._docks
