"""The panel Kernels in its window: files to write and read, forms of passes, colours of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from espalier.app.actions import file as files
from espalier.app.actions import model as models
from espalier.app.actions.timed import connect as connect_timed
from espalier.app.kernels.runs import KernelBench, Run, kernel_runs_of
from espalier.app.panels.kernels.panel import KernelsPanel
from espalier.app.panels.table import Table
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.measured.findings import Findings
    from espalier.app.window import Window

RUN = "Run"
EXPLAINED = "How it works"
RESULTS = "Results of kernels (*.json)"
# How a page begins what it is for, where that isn't `run`.
STARTS: dict[str, str] = {RUN: "run_chosen", EXPLAINED: "measure"}


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
    for told in (panel.bar.currentChanged, panel.begun, window.docks.docks["kernels"].visibilityChanged):
        told.connect(lambda *_: isValid(window) and window.actions_table.refresh())  # a dying one tells of its docks
    window.actions_table.menus["Run"].aboutToShow.connect(window.actions_table.refresh)


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
    """Measure what the tab in front asks for; without one, the kernels that are selected."""
    page: Any = _front(window)
    if page is None:
        page = panel_of(window).page(RUN)
    getattr(page, STARTS.get(_title(window), "run"))()


def run_words(window: Window) -> str:
    """What F7 does now."""
    title = _title(window)
    return {RUN: "Run kernels", EXPLAINED: "Measure what the question asks"}.get(title, f"Run the tab {title}")


def _front(window: Window) -> QWidget | None:
    """The page that is seen; None where no page of Kernels is."""
    panel = _panel(window)
    return panel.page(panel.title) if panel is not None and panel.isVisible() else None


def _panel(window: Window) -> KernelsPanel | None:
    """The panel, where it is made: the table of actions asks while the window is being furnished."""
    panel = window.docks.panels["kernels"] if window.furnished else None
    return panel if isinstance(panel, KernelsPanel) else None


def _title(window: Window) -> str:
    panel = _panel(window)
    return panel.title if panel is not None and panel.isVisible() else RUN


def explain(window: Window) -> None:
    """Show what kernels' questions are answered with, and put the keyboard there."""
    page = panel_of(window).page(EXPLAINED)
    page.list.setFocus()  # type: ignore[attr-defined]


def stop(window: Window) -> None:
    """End what the tab in front measures, else the run of kernels, else what another tab measures."""
    if under_way := _under_way(window):
        under_way[0].stop()


def running(window: Window) -> bool:
    """Whether there is something to end."""
    return bool(_under_way(window))


def _under_way(window: Window) -> list[Any]:
    """What measures now: the tab in front, then runs of kernels, then the other tabs."""
    runs, panel, front = kernel_runs_of(window.session), _panel(window), _title(window)
    found: dict[str, Any] = {RUN: (runs, runs.running.job)} if runs.running else {}
    for title, page in panel.pages.items() if panel is not None else ():
        if title != RUN and hasattr(page, "held"):
            found[title] = page.held, page.held.job  # type: ignore[attr-defined]
    waiting = {job.id for job in window.session.jobs}  # one that ends is heard of here before its page forgets it
    order = sorted(found, key=lambda title: (title != front, title != RUN))
    return [held for held, job in map(found.__getitem__, order) if job and job.id in waiting]


def panel_of(window: Window) -> KernelsPanel:
    """The panel, brought to the front. Panels that are still to be made are made first: that hides them all."""
    window.furnish()
    panel = window.docks.panels["kernels"]
    assert isinstance(panel, KernelsPanel)
    window.docks.bring("kernels")
    return panel
