"""Window wiring of the panel Kernels: file dialogs, pass forms, colours of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from espalier.app.features.kernels.hosted import made_panel, panel_of
from espalier.app.features.kernels.measurement_actions import connect as connect_measurements
from espalier.app.features.kernels.measurement_actions import follow as follow_measurements
from espalier.app.features.kernels.panel import KernelsPanel
from espalier.app.features.kernels.state.runs import KernelBench, Run, kernel_runs_of
from espalier.app.translation import tr
from espalier.app.widgets.table import Table
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.host import Host

RUN = tr("Run")
EXPLANATIONS = tr("How it works")
RESULTS = tr("Results of kernels (*.json)")
# The method that starts a page's action, where it is not `run`.
STARTS: dict[str, str] = {RUN: "run_chosen", EXPLANATIONS: "measure"}


def follow(host: Host) -> None:
    """Connect the measurements to the window."""
    kernel_runs_of(host.session).stored.connect(host.mark_changed)
    follow_measurements(host)


def connect(host: Host, panel: KernelsPanel) -> None:
    """Connect the panel's signals to the window."""
    panel.begun.connect(lambda: host.show_dock("kernels"))
    panel.node_wanted.connect(host.go_to)
    panel.mode_wanted.connect(host.canvas.set_mode)
    panel.pass_wanted.connect(host.ask_pass)
    panel.overlay_changed.connect(host.findings.show)
    panel.save_wanted.connect(lambda what, title, name: save(host, what, title, name))
    panel.load_wanted.connect(lambda: load(host))
    connect_measurements(host, panel)
    for signal in (panel.bar.currentChanged, panel.begun, host.dock("kernels").visibilityChanged):
        signal.connect(lambda *_: host.refresh_actions())


def save(host: Host, content: Any, title: str, name: str) -> None:
    """Ask for a file and save a table, a chart or a run."""
    if isinstance(content, Run):
        _save_run(host, kernel_runs_of(host.session), content)
    elif isinstance(content, Table):
        host.save_table(content)
    else:
        host.save_plots(content, title, name)


def _save_run(host: Host, bench: KernelBench, run: Run) -> None:
    def write(path: Path) -> None:
        try:
            bench.save(run, path if path.suffix == ".json" else path.with_name(path.name + ".json"))
        except EspalierError as error:
            host.banner.show_error(error)

    host.ask_path(tr("Save the results"), write, save=True, names=RESULTS, suggestion="kernels.json")


def load(host: Host) -> None:
    """Ask for a results file and show it."""

    def read(path: Path) -> None:
        page = panel_of(host).page(RUN)
        try:
            page.load(path)  # type: ignore[attr-defined]
        except EspalierError as error:
            host.banner.show_error(error)

    host.ask_path(tr("Load results of kernels"), read, names=RESULTS)


def run(host: Host) -> None:
    """Start the action of the tab in front; without one, run the selected kernels."""
    page: Any = _front(host)
    if page is None:
        page = panel_of(host).page(RUN)
    getattr(page, STARTS.get(_title(host), "run"))()


def run_title(host: Host) -> str:
    """Title of the present action of F7."""
    title = _title(host)
    return {RUN: tr("Run kernels"), EXPLANATIONS: tr("Measure the question's figures")}.get(
        title, tr("Run the tab {}", title)
    )


def _front(host: Host) -> QWidget | None:
    """The visible page of Kernels, or None."""
    panel = made_panel(host)
    return panel.page(panel.title) if panel is not None and panel.isVisible() else None


def _title(host: Host) -> str:
    panel = made_panel(host)
    return panel.title if panel is not None and panel.isVisible() else RUN


def explain(host: Host) -> None:
    """Show the tab How it works and focus its list of questions."""
    page = panel_of(host).page(EXPLANATIONS)
    page.list.setFocus()  # type: ignore[attr-defined]


def stop(host: Host) -> None:
    """Stop the measurement of the tab in front, else the kernel run, else that of another tab."""
    if active := _active(host):
        active[0].stop()


def running(host: Host) -> bool:
    """Whether a measurement is running."""
    return bool(_active(host))


def _active(host: Host) -> list[Any]:
    """States with a running job: the tab in front, then kernel runs, then the other tabs."""
    runs, panel, front = kernel_runs_of(host.session), made_panel(host), _title(host)
    states: dict[str, Any] = {RUN: (runs, runs.running.job)} if runs.running else {}
    for title, page in panel.pages.items() if panel is not None else ():
        if title != RUN and hasattr(page, "state"):
            states[title] = page.state, page.state.job  # type: ignore[attr-defined]
    waiting = {job.id for job in host.session.jobs}  # a finished job may still be set at its page
    order = sorted(states, key=lambda title: (title != front, title != RUN))
    return [state for state, job in map(states.__getitem__, order) if job and job.id in waiting]
