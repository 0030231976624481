"""The tabs Compile, Profile and Memory in their window: begun from menus, colours of the graph, the trace as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.features.kernels.hosted import panel_of
from espalier.app.features.kernels.state.timed import Timed
from espalier.model.files import write_bytes

if TYPE_CHECKING:
    from espalier.app.features.kernels.panel import KernelsPanel
    from espalier.app.host import Host

COLOURS = ("time", "memory")  # of the graph, by what was profiled
TABS = {"compile": "Compile", "profile": "Profile", "memory": "Memory"}
ABOUT = {
    "compile": ("Compile and time", "Eager against torch.compile: first call, later calls, break-even"),
    "profile": ("Profile", "Time and memory of each node, and the timeline of a run"),
    "memory": ("Memory ledger", "What formats save, ideal and real, and what would save more"),
}


def connect(host: Host, panel: KernelsPanel) -> None:
    """Let the window do what these tabs ask for, once they are built."""
    panel.built.connect(lambda title: _follow(host, panel.pages[title]))
    host.canvas.mode_chosen.connect(lambda mode: _colour(panel, mode))


def _follow(host: Host, page: Any) -> None:
    if isinstance(held := getattr(page, "held", None), Timed):
        held.kept.connect(host.keep)
    if hasattr(page, "trace_wanted"):
        page.trace_wanted.connect(lambda: save_trace(host, page))


def _colour(panel: KernelsPanel, mode: str) -> None:
    """The graph is coloured by what a profile tells: that is taken from the project, or measured."""
    if mode in COLOURS:
        page: Any = panel.prepared(TABS["profile"])
        page.colour_chosen(mode)


def measure(host: Host, name: str) -> None:
    """Bring a tab to the front, and run what it shows with its settings."""
    page: Any = panel_of(host).page(TABS[name])
    page.run()


def save_trace(host: Host, page: Any) -> None:
    """Ask for a file and copy the trace of the last run there."""

    def write(path: Path) -> None:
        whole = path if path.suffix == ".json" else path.with_name(f"{path.name}.json")
        host.telling(lambda: write_bytes(whole, page.trace_file.read_bytes()))

    if page.trace_file is not None:
        host.ask_path("Save the trace", write, save=True, names="Chrome traces (*.json)",
                       suggestion="trace.json")  # fmt: skip
