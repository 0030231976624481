"""Makes what the window does not need for its first paint, a part at a turn, so that it answers in between."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from espalier.app.host import Host
    from espalier.app.shell.docks import Docks

MODULES = (
    "pyqtgraph",
    *(
        f"espalier.app.features.{name}.panel"
        for name in ("inspector", "training", "sweep", "search", "allocate", "hardware")
    ),
    "espalier.app.shell.docks",
)


class Furnishing(QObject):
    """First the canvas, then what takes long to import, then panel by panel; `done` is called at the end.

    `canvas` makes the canvas, and says whether it was still to be made.
    """

    def __init__(self, window: QMainWindow, host: Host, canvas: Callable[[], bool], done: Callable[[], object]) -> None:
        super().__init__(window)
        self._window, self._host, self._canvas, self._done = window, host, canvas, done
        # The first paint does not wait for the canvas and the panels.
        self._later = QTimer(self, interval=20, singleShot=True)
        self._later.timeout.connect(self.next_part)
        self.start, self.stop = self._later.start, self._later.stop
        self._docks: Docks | None = None

    def next_part(self) -> None:
        """A part at a time, so that the window answers in between."""
        if not self._canvas() and not self.go_on():
            self._done()
            return
        self._later.start()  # only here: what raised would raise again and again

    @property
    def busy(self) -> bool:
        """Whether there is more to make."""
        return self._later.isActive()

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
            self._docks = Docks(self._window, self._host)
        return self._docks
