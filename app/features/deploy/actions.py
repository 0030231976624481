"""Window wiring of the panel Deploy: colours of the graph, the step of a plan, saving the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.deploy.state import deployment_of

if TYPE_CHECKING:
    from espalier.app.features.deploy.panel import DeployPanel
    from espalier.app.host import Host


def follow(host: Host) -> None:
    """Show plans as colours of the graph."""
    deployment, findings = deployment_of(host.session), host.findings
    deployment.changed.connect(lambda: findings.show_all(deployment.overlays()))


def connect(host: Host, panel: DeployPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.save_wanted.connect(lambda: host.save_table(panel.table, "plan.csv"))
    panel.colour_wanted.connect(host.canvas.set_mode)
    panel.begun.connect(lambda: host.show_dock("deploy"))
