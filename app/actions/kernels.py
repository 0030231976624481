"""The panel Kernels in its window: files to write and read, forms of passes, colours of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.actions import file as files
from app.actions import model as models
from app.actions.timed import connect as connect_timed
from app.kernels.runs import KernelBench, Run, kernel_runs_of
from app.panels.kernels.panel import KernelsPanel
from app.panels.table import Table
from model.errors import EspalierError

if TYPE_CHECKING:
    from app.measured.findings import Findings
    from app.window import Window

RUN = "Run"
EXPLAINED = "How it works"
RESULTS = "Results of kernels (*.json)"


def connect(window: Window, panel: KernelsPanel, findings: Findings) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: window.docks.bring("kernels"))
    panel.node_wanted.connect(window.go_to)
    panel.mode_wanted.connect(window.canvas.set_mode)
    panel.pass_wanted.connect(lambda name: models.ask(window, name))
    panel.overlay_changed.connect(findings.show)
    panel.save_wanted.connect(lambda what, title, name: save(window, what, title, name))
    panel.load_wanted.connect(lambda: load(window))
    connect_timed(window, panel)
    held = kernel_runs_of(window.session)
    held.kept.connect(window.refresh)
    held.kept.connect(window.recovery.look)


def save(window: Window, what: Any, title: str, name: str) -> None:
    """Ask for a file and write a table, a chart or a result into it."""
    if isinstance(what, Run):
        _save_run(window, kernel_runs_of(window.session), what)
    elif isinstance(what, Table):
        files.save_table(window, what)
    else:
        files.save_plots(window, what, title, name)


def _save_run(window: Window, held: KernelBench, run: Run) -> None:
    def write(path: Path) -> None:
        try:
            held.save(run, path if path.suffix == ".json" else path.with_name(path.name + ".json"))
        except EspalierError as error:
            window.banner.error(error)

    files.ask_path(window, "Save the results", write, save=True, names=RESULTS, suggestion="kernels.json")


def load(window: Window) -> None:
    """Ask for a file of results and show it."""

    def read(path: Path) -> None:
        page = panel_of(window).page(RUN)
        try:
            page.load(path)  # type: ignore[attr-defined]
        except EspalierError as error:
            window.banner.error(error)

    files.ask_path(window, "Load results of kernels", read, names=RESULTS)


def run(window: Window) -> None:
    """Measure the kernels that are selected."""
    page = panel_of(window).page(RUN)
    page.run_chosen()  # type: ignore[attr-defined]


def explain(window: Window) -> None:
    """Show what kernels' questions are answered with, and put the keyboard there."""
    page = panel_of(window).page(EXPLAINED)
    page.list.setFocus()  # type: ignore[attr-defined]


def stop(window: Window) -> None:
    """End the run of kernels."""
    kernel_runs_of(window.session).stop()


def running(window: Window) -> bool:
    """Whether kernels are being measured."""
    return kernel_runs_of(window.session).running is not None


def panel_of(window: Window) -> KernelsPanel:
    """The panel, brought to the front. Panels that are still to be made are made first: that hides them all."""
    window.furnish()
    panel = window.docks.panels["kernels"]
    assert isinstance(panel, KernelsPanel)
    window.docks.bring("kernels")
    return panel
