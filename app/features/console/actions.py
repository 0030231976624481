"""What the console asks of the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.translation import tr
from espalier.model.errors import ProjectError

if TYPE_CHECKING:
    from espalier.app.features.console.panel import ConsolePanel
    from espalier.app.host import Host


def connect(host: Host, panel: ConsolePanel) -> None:
    """Connect its signals."""
    panel.script_wanted.connect(lambda: save_script(host))
    panel.left.connect(lambda: host.canvas.setFocus())


def save_script(host: Host) -> None:
    """Ask for a file, and save the recipe as a Python program."""
    document = host.session.document
    if document is None:
        host.banner.show_error(ProjectError("No model is open.", "Open one first."))
        return
    name = document.path.stem if document.path else "recipe"
    host.ask_path(tr("Save as script"), lambda path: _write(host, path), save=True, names=tr("Python (*.py)"),
                  suggestion=f"{name}.py")  # fmt: skip


def _write(host: Host, path: Path) -> None:
    path = path if path.suffix else path.with_suffix(".py")
    host.session.export(
        "script", path, lambda _: host.banner.show_message(tr("{} repeats the recipe.", path.name), str(path))
    )
