"""Window wiring of the panel Deploy: colours of the graph, the step of a plan, saving the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.features.deploy.state import deployment_of

if TYPE_CHECKING:
    from espalier.app.features.deploy.panel import DeployPanel
    from espalier.app.host import Host


def follow(host: Host) -> None:
    """Show plans as colours of the graph, and what devices send one another on its edges."""
    deployment, findings, canvas = deployment_of(host.session), host.findings, host.canvas

    def show() -> None:
        findings.show_all(deployment.overlays())
        canvas.set_transfers(deployment.transfers(canvas.mode))

    deployment.changed.connect(show)
    canvas.mode_chosen.connect(lambda mode: canvas.set_transfers(deployment.transfers(mode)))
    show()


def connect(host: Host, panel: DeployPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.save_wanted.connect(lambda: host.save_table(panel.table, "plan.csv"))
    panel.colour_wanted.connect(host.canvas.set_mode)
    panel.begun.connect(lambda: host.show_dock("deploy"))
