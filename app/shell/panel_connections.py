"""Connects each panel to the services of the window when it is created; a feature connects its own signals itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app.features.edits import actions, add_operation, arrange, arrange_menu, context_menu, edge_menu
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.jobs.state import job_list_of
from espalier.app.features.outline.panel import OutlinePanel
from espalier.app.features.problems.state import problems_of
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.features.tables.panel import TablesPanel
from espalier.app.features.tables.state import document_reports_of
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.shell.docks import DOCKS, Docks

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from PySide6.QtWidgets import QWidget

    from espalier.app.host import Host
    from espalier.app.shell.plugins import Plugins
    from espalier.app.shell.services import Services

ESCAPE = ("inspector", "recipe", "training", "data")  # Escape in these panels returns to the graph


def connect_panels(
    docks: Docks, host: Host, services: Services, plugins: Plugins, show_job: Callable[[str], None]
) -> None:
    """Connect what needs no panel, and each panel once it exists; `show_job` receives the text of the running job."""
    session = host.session
    job_list_of(session).busy.connect(show_job)
    document_reports_of(session).step_shown.connect(services.reports.show_step_report)
    problems = problems_of(session)
    problems.changed.connect(lambda: docks.show_count("problems", len(problems.rows)))
    docks.show_count("problems", len(problems.rows))
    for part in (actions, add_operation, arrange, arrange_menu, context_menu, edge_menu):
        part.connect(host)
    for spec in DOCKS:
        if spec.follow is not None:
            spec.follow(host)
    docks.connect_panels(PanelConnections(docks, host, services, plugins).connect)


class PanelConnections:
    """Connects one panel at a time."""

    def __init__(self, docks: Docks, host: Host, services: Services, plugins: Plugins) -> None:
        self._docks, self._host, self._services, self._plugins = docks, host, services, plugins

    def connect(self, name: str, panel: QWidget) -> None:
        """Connect a panel that has just been created."""
        match panel:
            case OutlinePanel():
                panel.follow(self._host.canvas)
            case RecipePanel():
                self._connect_recipe(panel)
            case SensitivityPanel():
                panel.port_wanted.connect(lambda port: self._inspector.precision.set_port_if_present(port))
            case TablesPanel():
                self._connect_tables(panel)
            case TrainingPanel():
                panel.wanted.connect(self._services.forms.train)
                panel.refused.connect(self._host.banner.dismiss, Qt.ConnectionType.QueuedConnection)
            case _:
                pass
        connect: Callable[[Host, Any], object] | None = next(s.connect for s in DOCKS if s.id == name)
        if connect is not None:
            connect(self._host, panel)
        if name in ESCAPE:
            self._connect_escape(panel)

    @property
    def _inspector(self) -> InspectorPanel:
        panel = self._docks.panels["inspector"]
        assert isinstance(panel, InspectorPanel)
        return panel

    def _connect_recipe(self, panel: RecipePanel) -> None:
        panel.edit_wanted.connect(self._services.forms.edit_step)
        panel.sweep_wanted.connect(self._services.forms.sweep_step)
        self._plugins.changed.connect(panel.refresh)

    def _connect_tables(self, panel: TablesPanel) -> None:
        host, reports = self._host, self._services.reports
        self._plugins.changed.connect(panel.offer)
        panel.wanted.connect(reports.run)
        panel.options_wanted.connect(reports.ask)
        panel.table.node_wanted.connect(host.go_to)
        panel.overlay_wanted.connect(host.canvas.set_overlay)
        panel.save_wanted.connect(lambda: host.save_table(panel.table))

    def _connect_escape(self, panel: QWidget) -> None:
        """Escape in a side panel returns to the graph and discards unfinished input."""
        key = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
        key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        key.activated.connect(self._leave)

    def _leave(self) -> None:
        if "inspector" in self._docks.panels:
            self._inspector.precision.typed.forget()
            self._inspector.refresh()
        self._host.canvas.setFocus()
