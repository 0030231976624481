"""Creates the canvas and the docks step by step after the first paint, so that the window stays responsive."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from espalier.app.features.jobs.state import job_list_of
from espalier.app.features.log.state import log_lines_of
from espalier.app.features.problems.state import problems_of
from espalier.app.features.tables.state import document_reports_of

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
AHEAD = ("inspector", "search", "hardware")  # panels that take more than 100 ms: created when nothing else happens
INTERVAL = 20  # milliseconds between two steps
IDLE = 3000  # milliseconds from the opening of a document to what is created ahead


# They follow the session from the start of the window; states that take longer to import follow once docks exist.
EARLY_STATES = (job_list_of, log_lines_of, problems_of, document_reports_of)


class LazyPanels(QObject):
    """Creates the canvas, imports the slow modules, lets `done` create the docks, then creates the panels of AHEAD.

    `build_canvas` creates the canvas and returns False if it exists already.
    """

    def __init__(
        self, workbench: Workbench, host: Host, build_canvas: Callable[[], bool], done: Callable[[], object]
    ) -> None:
        super().__init__(workbench)
        self._workbench, self._host, self._build_canvas, self._done = workbench, host, build_canvas, done
        for state_of in EARLY_STATES:
            state_of(host.session)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.build_part)
        self.stop = self._timer.stop

    def start(self, pause: int = INTERVAL) -> None:
        """Do the next step after so many milliseconds."""
        self._timer.start(pause)

    def build_part(self) -> None:
        """Do one step now and schedule the next one."""
        self.stop()
        if not self._build_canvas() and not self.build_next() and not self._build_docks() and not self._build_ahead():
            return
        self.start()  # last: a step that raises is not repeated

    @property
    def busy(self) -> bool:
        """Whether a step is scheduled."""
        return self._timer.isActive()

    def build_next(self) -> bool:
        """Import the next module; returns False if nothing is left."""
        module = next((m for m in MODULES if m not in sys.modules), None)
        if module:
            importlib.import_module(module)
        return module is not None

    def _build_docks(self) -> bool:
        missing = not self._host.panels_built
        if missing:
            self._done()
        return missing

    def _build_ahead(self) -> bool:
        name = next((n for n in AHEAD if self._host.existing_panel(n) is None), None)
        if name and self._workbench.window().isVisible():
            self._host.panel(name)
            return True
        return False

    def docks(self) -> Docks:
        """Create the docks now."""
        from espalier.app.shell.docks import Docks

        return Docks(self._workbench, self._host)
