"""The panel Kernels in its window: files to write and read, forms of passes, colours of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from espalier.app.features.kernels.hosted import made_panel, panel_of
from espalier.app.features.kernels.panel import KernelsPanel
from espalier.app.features.kernels.state.runs import KernelBench, Run, kernel_runs_of
from espalier.app.features.kernels.timed_actions import connect as connect_timed
from espalier.app.widgets.table import Table
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.host import Host

RUN = "Run"
EXPLAINED = "How it works"
RESULTS = "Results of kernels (*.json)"
# How a page begins what it is for, where that isn't `run`.
STARTS: dict[str, str] = {RUN: "run_chosen", EXPLAINED: "measure"}


def connect(host: Host, panel: KernelsPanel) -> None:
    """Let the window do what the panel asks for."""
    panel.begun.connect(lambda: host.show_dock("kernels"))
    panel.node_wanted.connect(host.go_to)
    panel.mode_wanted.connect(host.canvas.set_mode)
    panel.pass_wanted.connect(host.ask_pass)
    panel.overlay_changed.connect(host.findings.show)
    panel.save_wanted.connect(lambda what, title, name: save(host, what, title, name))
    panel.load_wanted.connect(lambda: load(host))
    connect_timed(host, panel)
    held = kernel_runs_of(host.session)
    held.kept.connect(host.keep)
    for told in (panel.bar.currentChanged, panel.begun, host.dock("kernels").visibilityChanged):
        told.connect(lambda *_: host.refresh_actions())


def save(host: Host, what: Any, title: str, name: str) -> None:
    """Ask for a file and write a table, a chart or a result into it."""
    if isinstance(what, Run):
        _save_run(host, kernel_runs_of(host.session), what)
    elif isinstance(what, Table):
        host.save_table(what)
    else:
        host.save_plots(what, title, name)


def _save_run(host: Host, held: KernelBench, run: Run) -> None:
    def write(path: Path) -> None:
        try:
            held.save(run, path if path.suffix == ".json" else path.with_name(path.name + ".json"))
        except EspalierError as error:
            host.banner.error(error)

    host.ask_path("Save the results", write, save=True, names=RESULTS, suggestion="kernels.json")


def load(host: Host) -> None:
    """Ask for a file of results and show it."""

    def read(path: Path) -> None:
        page = panel_of(host).page(RUN)
        try:
            page.load(path)  # type: ignore[attr-defined]
        except EspalierError as error:
            host.banner.error(error)

    host.ask_path("Load results of kernels", read, names=RESULTS)


def run(host: Host) -> None:
    """Measure what the tab in front asks for; without one, the kernels that are selected."""
    page: Any = _front(host)
    if page is None:
        page = panel_of(host).page(RUN)
    getattr(page, STARTS.get(_title(host), "run"))()


def run_words(host: Host) -> str:
    """What F7 does now."""
    title = _title(host)
    return {RUN: "Run kernels", EXPLAINED: "Measure what the question asks"}.get(title, f"Run the tab {title}")


def _front(host: Host) -> QWidget | None:
    """The page that is seen; None where no page of Kernels is."""
    panel = made_panel(host)
    return panel.page(panel.title) if panel is not None and panel.isVisible() else None


def _title(host: Host) -> str:
    panel = made_panel(host)
    return panel.title if panel is not None and panel.isVisible() else RUN


def explain(host: Host) -> None:
    """Show what kernels' questions are answered with, and put the keyboard there."""
    page = panel_of(host).page(EXPLAINED)
    page.list.setFocus()  # type: ignore[attr-defined]


def stop(host: Host) -> None:
    """End what the tab in front measures, else the run of kernels, else what another tab measures."""
    if under_way := _under_way(host):
        under_way[0].stop()


def running(host: Host) -> bool:
    """Whether there is something to end."""
    return bool(_under_way(host))


def _under_way(host: Host) -> list[Any]:
    """What measures now: the tab in front, then runs of kernels, then the other tabs."""
    runs, panel, front = kernel_runs_of(host.session), made_panel(host), _title(host)
    found: dict[str, Any] = {RUN: (runs, runs.running.job)} if runs.running else {}
    for title, page in panel.pages.items() if panel is not None else ():
        if title != RUN and hasattr(page, "held"):
            found[title] = page.held, page.held.job  # type: ignore[attr-defined]
    waiting = {job.id for job in host.session.jobs}  # one that ends is heard of here before its page forgets it
    order = sorted(found, key=lambda title: (title != front, title != RUN))
    return [held for held, job in map(found.__getitem__, order) if job and job.id in waiting]
