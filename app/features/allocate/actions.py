"""The panel Allocate in its window: what is tried is shown on the graph, in the colours of its bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.model.graph.graph import Graph

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.host import Host

INPUTS = ("activation_bits",)  # costs that the bits of inputs tell of, and not those of weights


def connect(host: Host, panel: AllocatePanel) -> None:
    """Let the graph follow the panel."""
    shown = Shown(host.canvas, panel)
    panel.preview_wanted.connect(shown.show)
    panel.node_wanted.connect(host.go_to)
    dock = host.dock("allocate")
    dock.visibilityChanged.connect(shown.look_on)
    panel.save_wanted.connect(lambda: host.save_plots(panel, "Save the front", "front.png"))
    held = panel.allocations
    back = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
    back.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    back.activated.connect(lambda: held.reset() if held.found else host.canvas.setFocus())
    escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), host.canvas)
    escape.setContext(Qt.ShortcutContext.WidgetShortcut)
    escape.setEnabled(False)
    escape.activated.connect(held.reset)
    held.moved.connect(lambda: escape.setEnabled(held.found is not None))


class Shown(QObject):
    """A preview on the canvas, in the colours of bits while it lasts; then those of before come back."""

    def __init__(self, canvas: GraphCanvas, panel: AllocatePanel) -> None:
        super().__init__(panel)
        self._canvas, self._panel = canvas, panel
        self._before: str | None = None
        self._mode = ""
        self._looked_at = True

    def look_on(self, on: bool) -> None:
        """Whether the panel is in front: behind, the graph is itself again; what is tried comes back with it."""
        self._looked_at = on
        if on:
            QTimer.singleShot(0, self, self._again)  # once another panel has ended its own
        else:
            self.show(None)

    def _again(self) -> None:
        self.show(self._panel.allocations.preview())

    def show(self, graph: Graph | None) -> None:
        """Show another state of the graph, or the document's own again."""
        if graph is None or not self._looked_at:
            if self._before is None:  # another panel's preview is not ours to end
                return
            self._canvas.preview(None)
            if self._canvas.mode == self._mode:
                self._canvas.set_mode(self._before)
            self._before = None
            return
        if self._panel.allocations.figure in INPUTS:
            self._begin("overlay")
            values = {n.id: float(n.precision["data_in"].format.bits) for n in graph if "data_in" in n.precision}
            self._canvas.preview(graph)
            self._canvas.set_overlay("input bits", values)
            return
        self._canvas.preview(graph)
        if self._begin("bits"):
            self._canvas.set_mode("bits")

    def _begin(self, mode: str) -> bool:
        """Remember the colours of before; False where it has begun already, and people may have chosen others since."""
        if self._before is not None and self._mode == mode:
            return False
        self._before = self._canvas.mode if self._before is None else self._before
        self._mode = mode
        return True
