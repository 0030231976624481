"""The tabs Compile, Profile and Memory in their window: begun from menus, colours of the graph, the trace as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.actions import file as files
from espalier.app.kernels.timed import Timed
from espalier.model.files import write_bytes

if TYPE_CHECKING:
    from espalier.app.panels.kernels.panel import KernelsPanel
    from espalier.app.window import Window

COLOURS = ("time", "memory")  # of the graph, by what was profiled
TABS = {"compile": "Compile", "profile": "Profile", "memory": "Memory"}
ABOUT = {
    "compile": ("Compile and time", "Eager against torch.compile: the first call, later ones, when it pays"),
    "profile": ("Profile", "Time and memory of each node, and the timeline of a run"),
    "memory": ("Memory ledger", "What formats save, ideally and in fact, and what would save more"),
}


def connect(window: Window, panel: KernelsPanel) -> None:
    """Let the window do what these tabs ask for, once they are built."""
    panel.built.connect(lambda title: _follow(window, panel.pages[title]))
    window.canvas.mode_chosen.connect(lambda mode: _colour(panel, mode))


def _follow(window: Window, page: Any) -> None:
    if isinstance(held := getattr(page, "held", None), Timed):
        held.kept.connect(window.refresh)
        held.kept.connect(window.recovery.look)
    if hasattr(page, "trace_wanted"):
        page.trace_wanted.connect(lambda: save_trace(window, page))


def _colour(panel: KernelsPanel, mode: str) -> None:
    """The graph is coloured by what a profile tells: that is taken from the project, or measured."""
    if mode in COLOURS:
        page: Any = panel.prepared(TABS["profile"])
        page.colour_chosen(mode)


def measure(window: Window, name: str) -> None:
    """Bring a tab to the front, and run what it shows with its settings."""
    from espalier.app.actions.kernels import panel_of

    page: Any = panel_of(window).page(TABS[name])
    page.run()


def save_trace(window: Window, page: Any) -> None:
    """Ask for a file and copy the trace of the last run there."""

    def write(path: Path) -> None:
        whole = path if path.suffix == ".json" else path.with_name(f"{path.name}.json")
        files.telling(window, lambda: write_bytes(whole, page.trace_file.read_bytes()))

    if page.trace_file is not None:
        files.ask_path(window, "Save the trace", write, save=True, names="Chrome traces (*.json)",
                       suggestion="trace.json")  # fmt: skip
