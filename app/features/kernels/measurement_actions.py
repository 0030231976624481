"""Window wiring of the tabs Compile, Profile and Memory: menu actions, graph colours, saving the trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.features.kernels.hosted import panel_of
from espalier.app.features.kernels.state.measurement import Measurement
from espalier.app.translation import tr, translated
from espalier.model.files import write_bytes

if TYPE_CHECKING:
    from espalier.app.features.kernels.panel import KernelsPanel
    from espalier.app.host import Host

COLOURS = ("time", "memory")  # modes of the graph's colours that need a profile
TABS = translated({"compile": "Compile", "profile": "Profile", "memory": "Memory"})
ABOUT = translated(
    {
        "compile": ("Compile and time", "Eager against torch.compile: first call, later calls, break-even"),
        "profile": ("Profile", "Time and memory of each node, and the timeline of a run"),
        "memory": ("Memory ledger", "Ideal and real savings of the formats, and further savings"),
    }
)


def follow(host: Host) -> None:
    """Give the graph its colours by time and memory."""
    host.canvas.mode_chosen.connect(lambda mode: _colour(host, mode) if mode in COLOURS else None)


def connect(host: Host, panel: KernelsPanel) -> None:
    """Connect these tabs to the window, once they are built."""
    panel.built.connect(lambda title: _follow(host, panel.pages[title]))


def _follow(host: Host, page: Any) -> None:
    if isinstance(state := getattr(page, "state", None), Measurement):
        state.stored.connect(host.mark_changed)
    if hasattr(page, "trace_wanted"):
        page.trace_wanted.connect(lambda: save_trace(host, page))


def _colour(host: Host, mode: str) -> None:
    """Provide the profile for a colour mode of the graph, from the project or by measuring."""
    panel: Any = host.panel("kernels")
    panel.prepared(TABS["profile"]).colour_chosen(mode)


def measure(host: Host, name: str) -> None:
    """Bring a tab to the front and run its analysis with its settings."""
    page: Any = panel_of(host).page(TABS[name])
    page.run()


def save_trace(host: Host, page: Any) -> None:
    """Ask for a file and copy the last run's trace to it."""

    def write(path: Path) -> None:
        target = path if path.suffix == ".json" else path.with_name(f"{path.name}.json")
        host.report_errors(lambda: write_bytes(target, page.trace_file.read_bytes()))

    if page.trace_file is not None:
        host.ask_path(tr("Save the trace"), write, save=True, names=tr("Chrome traces (*.json)"),
                       suggestion="trace.json")  # fmt: skip
