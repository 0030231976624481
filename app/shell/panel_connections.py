"""Connects signals of panels to the services of the window; a feature connects its own signals in its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app.features.edits import actions, add_operation, arrange, arrange_menu, context_menu, edge_menu
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.outline.panel import OutlinePanel
from espalier.app.features.problems.panel import ProblemsPanel
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.shell.docks import DOCKS, Docks

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.shell.plugins import Plugins
    from espalier.app.shell.services import Services


def connect_panels(
    docks: Docks, host: Host, services: Services, plugins: Plugins, show_job: Callable[[str], None]
) -> None:
    """Connect all panels; `show_job` receives the text of the running job."""
    forms, reports = services.forms, services.reports
    jobs, problems, recipe = docks.panels["jobs"], docks.panels["problems"], docks.panels["recipe"]
    assert isinstance(jobs, JobsPanel) and isinstance(problems, ProblemsPanel) and isinstance(recipe, RecipePanel)
    outline = docks.panels["outline"]
    assert isinstance(outline, OutlinePanel)
    outline.follow(host.canvas)
    for part in (actions, add_operation, arrange, arrange_menu, context_menu, edge_menu):
        part.connect(host)
    jobs.busy.connect(show_job)
    problems.counted.connect(lambda n: docks.show_count("problems", n))
    recipe.edit_wanted.connect(forms.edit_step)
    recipe.sweep_wanted.connect(forms.sweep_step)
    plugins.changed.connect(recipe.refresh)
    plugins.changed.connect(docks.tables.offer)
    for spec in DOCKS:
        if spec.connect is not None:
            spec.connect(host, docks.panels[spec.id])
    sensitivities, inspector = docks.panels["sensitivity"], docks.panels["inspector"]
    assert isinstance(sensitivities, SensitivityPanel) and isinstance(inspector, InspectorPanel)
    sensitivities.port_wanted.connect(inspector.precision.set_port_if_present)
    _connect_escape(docks, host)
    training = docks.panels["training"]
    assert isinstance(training, TrainingPanel)
    training.wanted.connect(forms.train)
    training.refused.connect(host.banner.dismiss, Qt.ConnectionType.QueuedConnection)
    docks.tables.wanted.connect(reports.run)
    docks.tables.options_wanted.connect(reports.ask)
    docks.tables.step_shown.connect(reports.show_step_report)
    docks.tables.table.node_wanted.connect(host.go_to)
    docks.tables.overlay_wanted.connect(host.canvas.set_overlay)
    docks.tables.save_wanted.connect(lambda: host.save_table(docks.tables.table))


def _connect_escape(docks: Docks, host: Host) -> None:
    """Escape in a side panel returns to the graph and discards unfinished input."""
    inspector, others = docks.panels["inspector"], ("recipe", "training", "data")
    assert isinstance(inspector, InspectorPanel)
    for panel in (inspector, *(docks.panels[name] for name in others)):
        key = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
        key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        key.activated.connect(inspector.precision.typed.forget)
        key.activated.connect(inspector.refresh)
        key.activated.connect(host.canvas.setFocus)
