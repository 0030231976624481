"""Creates the canvas and the panels step by step after the first paint, so that the window stays responsive."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.workbench import Workbench

MODULES = (
    "pyqtgraph",
    *(
        f"espalier.app.features.{name}.panel"
        for name in ("inspector", "training", "sweep", "search", "allocate", "hardware")
    ),
    "espalier.app.shell.docks",
)
INTERVAL = 20  # milliseconds between two steps


class LazyPanels(QObject):
    """Creates the canvas, imports the slow modules, then creates panel by panel; calls `done` at the end.

    `build_canvas` creates the canvas and returns False if it exists already.
    """

    def __init__(
        self, workbench: Workbench, host: Host, build_canvas: Callable[[], bool], done: Callable[[], object]
    ) -> None:
        super().__init__(workbench)
        self._workbench, self._host, self._build_canvas, self._done = workbench, host, build_canvas, done
        self._timer = QTimer(self, interval=INTERVAL, singleShot=True)
        self._timer.timeout.connect(self.build_part)
        self.start, self.stop = self._timer.start, self._timer.stop
        self._docks: Docks | None = None

    def build_part(self) -> None:
        """Do one step and schedule the next one."""
        if not self._build_canvas() and not self.build_next():
            self._done()
            return
        self._timer.start()  # last: a step that raises is not repeated

    @property
    def busy(self) -> bool:
        """Whether a step is scheduled."""
        return self._timer.isActive()

    def build_next(self) -> bool:
        """Import the next module or create the next panel; returns False if nothing is left."""
        if module := next((m for m in MODULES if m not in sys.modules), None):
            importlib.import_module(module)
            return True
        return self._created_docks().build_next()

    def finish(self) -> Docks:
        """Create all remaining panels now."""
        docks = self._created_docks()
        while docks.build_next():
            continue
        return docks

    def _created_docks(self) -> Docks:
        from espalier.app.shell.docks import Docks

        if self._docks is None:
            self._docks = Docks(self._workbench, self._host)
        return self._docks
