"""Window wiring of the panel Allocate: previews the current allocation on the canvas, coloured by bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.translation import tr
from espalier.app.widgets.docked import follow_visibility
from espalier.model.graph.graph import Graph

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.host import Host

INPUTS = ("activation_bits",)  # costs that depend on the bits of inputs, not of weights


def connect(host: Host, panel: AllocatePanel) -> None:
    """Connect the panel to the canvas and the window."""
    preview = CanvasPreview(host.canvas, panel)
    panel.preview_wanted.connect(preview.show)
    panel.node_wanted.connect(host.go_to)
    follow_visibility(host.dock("allocate"), preview.set_active)
    panel.save_wanted.connect(lambda: host.save_plots(panel, tr("Save the front"), "front.png"))
    allocations = panel.allocations
    back = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
    back.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    back.activated.connect(lambda: allocations.reset() if allocations.solution else host.canvas.setFocus())
    escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), host.canvas)
    escape.setContext(Qt.ShortcutContext.WidgetShortcut)
    escape.setEnabled(False)
    escape.activated.connect(allocations.reset)
    allocations.moved.connect(lambda: escape.setEnabled(allocations.solution is not None))


class CanvasPreview(QObject):
    """Shows an allocation on the canvas, coloured by bits; restores the previous colour mode afterwards."""

    def __init__(self, canvas: GraphCanvas, panel: AllocatePanel) -> None:
        super().__init__(panel)
        self._canvas, self._panel = canvas, panel
        self._before: str | None = None
        self._mode = ""
        self._active = True

    def set_active(self, on: bool) -> None:
        """Show the preview while the panel is in front, and the document's graph while it is not."""
        self._active = on
        if on:
            QTimer.singleShot(0, self, self._again)  # after another panel has ended its preview
        else:
            self.show(None)

    def _again(self) -> None:
        self.show(self._panel.allocations.preview())

    def show(self, graph: Graph | None) -> None:
        """Preview a graph; None: show the document's own graph again."""
        if graph is None or not self._active:
            if self._before is None:  # leave another panel's preview alone
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
            self._canvas.set_overlay(tr("input bits"), values)
            return
        self._canvas.preview(graph)
        if self._begin("bits"):
            self._canvas.set_mode("bits")

    def _begin(self, mode: str) -> bool:
        """Store the colour mode; return False if the preview was active (the user may have changed it since)."""
        if self._before is not None and self._mode == mode:
            return False
        self._before = self._canvas.mode if self._before is None else self._before
        self._mode = mode
        return True
