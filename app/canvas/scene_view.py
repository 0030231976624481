"""The scene of the canvas: its graph, colours and problems, and the layouts computed for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.camera_anchor import shift
from espalier.app.canvas.colouring import MEASURED, MODES, Overlay, colouring
from espalier.app.canvas.hierarchy import changed_choices
from espalier.app.canvas.interactive_viewport import InteractiveViewport
from espalier.app.canvas.layout_worker import LayoutRequest, LayoutWorker
from espalier.app.canvas.overlay import mark_changed, mark_selection, numbers_of
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.size_bars import SizeBars
from espalier.app.canvas.transfers import Transfer
from espalier.app.theme import Palette
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.graph.graph import Delta, Graph


class SceneView(InteractiveViewport):
    """An interactive viewport that holds a graph and keeps its scene up to date.

    `open_changed(paths)`: the set of expanded groups has changed. `mode_chosen(mode)`: a colour mode was chosen (it may
    be the current one).
    """

    open_changed = Signal(object)
    mode_chosen = Signal(str)

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent, palette)
        self.graph: Graph | None = None
        self.mode, self.horizontal, self.show_scalars = "kind", False, False
        self.folding, self.show_shapes = True, False
        self.overlay: Overlay | None = None
        self._sizes: tuple[str, Mapping[str, float]] | None = None
        self._measured: dict[str, Overlay] = {}
        self.open_groups: frozenset[str] | None = None
        self.arrangement = UNARRANGED
        self._problems: dict[str, str] = {}
        self._changed: frozenset[str] = frozenset()
        self._preview: Graph | None = None
        self._after: list[Callable[[], None]] = []
        self._anchor: str | None = None
        self._signalled_open: frozenset[str] | None = None
        self._layout_worker = LayoutWorker(self)
        self._layout_worker.arrived.connect(self._install)
        self.destroyed.connect(self._layout_worker.stop)
        self.bars.mode_wanted.connect(self.set_mode)
        self.bars.plain_wanted.connect(lambda: self.set_size_bars("", None))
        self.bars.shapes_wanted.connect(lambda: self.set_show_shapes(not self.show_shapes))
        self.bars.turn_wanted.connect(lambda: self.set_horizontal(not self.horizontal))

    # ---- content

    def set_graph(self, graph: Graph | None, delta: Delta | None = None) -> None:
        """Show `graph`. If only choices differ, the layout stays; `delta`, if known, names the changed nodes."""
        self.preview(None)
        before, self.graph = self.graph, graph
        if graph is None:
            self._clear()
            return
        changed = changed_choices(before, graph, delta) if before and self._drawn() else None
        if changed is not None:
            self._change(graph, changed)
        else:
            kin = before is not None and 3 * len(before.nodes.keys() & graph.nodes.keys()) > len(before)
            if not kin:
                self._after, self.open_groups, self._anchor = [self.start_look], None, None
            self.select(self.selection())
            self._lay_out(new=True)

    def preview(self, graph: Graph | None) -> None:
        """Show the choices of another state of the same nodes, until None is given or the graph changes."""
        self._preview = graph
        if self._drawn():
            self._show_choices()

    def _show_choices(self) -> None:
        """Show the choices of the preview, or of the graph itself."""
        shown = self._preview or self.graph
        if self.scene is not None and shown is not None and self.scene.graph is not shown:
            changed = changed_choices(self.scene.graph, shown)
            if changed:
                self._change(shown, changed)

    def _drawn(self) -> bool:
        return self.scene is not None and not self._layout_worker.busy

    def _clear(self) -> None:
        self._layout_worker.stop()
        self.scene, self.open_groups, self._signalled_open, self.waiting = None, None, None, False
        self.bars.show(False)
        self.tiles.clear()
        self.kit.forget()
        self.select(())
        self.update()

    def _change(self, graph: Graph, changed: tuple[str, ...]) -> None:
        """Repaint the nodes whose choices differ, or the collapsed groups that hide them, and affected headers."""
        assert self.scene is not None
        index = self.scene.layout.tree.index
        heads = self.scene.choices_changed(graph, changed)
        if self.mode == "kind":
            chips = self.scene.casts_changed(changed) if self.kit.casts else []
            self.repaint_areas({self.scene.rect_of(index[i]) for i in changed} | {*chips, *heads})
            self.bars.show_colouring(self.scene, self.mode, self.overlay.title if self.overlay else None)
        else:
            self._recolour()

    def set_problems(self, problems: Mapping[str, str]) -> None:
        """Mark nodes that have a problem; the tool tip shows its text."""
        self._problems = dict(problems)
        if self.scene:
            self._mark_problems(self.scene)
            self.repaint_all()

    def set_arrangement(self, arrangement: Arrangement) -> None:
        """Show other pins and frames; the view stays."""
        if arrangement != self.arrangement:
            self.arrangement = arrangement
            if self.scene is not None:
                self.cancel_gesture()
                self.scene = self.scene.rearranged(arrangement)
                self.mark()
                self.bars.minimap.set_scene(self.scene, self.tokens)
                self.repaint_all()

    def set_changed(self, ids: Iterable[str]) -> None:
        """Outline the nodes that differ from another graph, until other ones are named."""
        self._changed = frozenset(ids)
        self.mark()

    def _mark_problems(self, scene: Scene) -> None:
        index = scene.layout.tree.index
        scene.problems = {index[k]: v for k, v in self._problems.items() if k in index}

    def set_overlay(self, title: str, values: dict[str, float] | None) -> None:
        """Colour the nodes by given values; None returns to the kinds of operation."""
        self.overlay = Overlay(title, values) if values is not None else None
        self.set_mode("overlay" if self.overlay else "kind")

    def set_size_bars(self, title: str, values: Mapping[str, float] | None) -> None:
        """Draw a bar on each node whose length is its value; None removes them."""
        self._sizes = (title, values) if values is not None else None
        self._recolour()

    def set_measured(self, overlays: Mapping[str, Overlay]) -> None:
        """Set the values of the measured modes; missing ones are not measured."""
        if overlays != self._measured:
            self._measured = dict(overlays)
            if self.mode in MEASURED:
                self._recolour()

    def set_mode(self, mode: str) -> None:
        """Colour by a mode of MODES, or by "overlay"."""
        self.mode = mode if mode in MODES or (mode == "overlay" and self.overlay) else "kind"
        self._recolour()
        self.mode_chosen.emit(self.mode)

    def _recolour(self) -> None:
        if self.scene is None:
            return
        tree = self.scene.layout.tree
        values = self._measured.get(self.mode) if self.mode in MEASURED else self.overlay
        self.scene.colours = colouring(self.mode, tree, self.scene.figures, values, self.tokens)
        self.scene.sizes = SizeBars.of(*self._sizes, tree.ids) if self._sizes else None
        self.bars.minimap.set_scene(self.scene, self.tokens)
        self.bars.show_colouring(self.scene, self.mode, self.overlay.title if self.overlay else None)
        self.repaint_all()

    def set_palette(self, palette: Palette) -> None:
        """Set the theme."""
        self.tokens = self.kit.palette = palette
        self.bars.set_palette(palette)
        self.tiles.clear()
        self._recolour()
        self.update()

    # ---- layout

    def set_horizontal(self, horizontal: bool) -> None:
        """Set the direction of the flow: left to right, or top to bottom."""
        if horizontal != self.horizontal:
            self.horizontal = horizontal
            self._after.append(self.start_look)
            self._lay_out()

    @property
    def show_casts(self) -> bool:
        """Whether format conversions are shown on edges."""
        return self.kit.casts

    def set_show_casts(self, shown: bool) -> None:
        """Show or hide format conversions on edges."""
        self.kit.casts = shown
        self.repaint_all()

    def set_show_shapes(self, shown: bool) -> None:
        """Show or hide operations that only move values (view, transpose, …); edges run through hidden ones."""
        if shown != self.show_shapes:
            self.show_shapes = shown
            self._lay_out()

    def set_show_scalars(self, shown: bool) -> None:
        """Show or hide shape arithmetic."""
        if shown != self.show_scalars:
            self.show_scalars = shown
            self._lay_out(new=True)

    def set_folding(self, folding: bool) -> None:
        """Draw collapsed identical groups in a row as one box, or each as its own."""
        if folding != self.folding:
            self.folding = folding
            self._lay_out()

    def _lay_out(self, new: bool = False) -> None:
        if self.graph is None:
            return
        tree = self.scene.layout.tree if self.scene and not new and not self._layout_worker.busy else None
        same_structure = tree is not None and tree.show_shapes == self.show_shapes
        self.waiting = True
        shown, before = self._preview or self.graph, self.scene if same_structure else None
        self._layout_worker.request(LayoutRequest(
            shown, before, self.open_groups, self.horizontal, self.show_scalars, self.folding, self.show_shapes,
            self.arrangement, self.shown_transfers(),
        ))  # fmt: skip

    def shown_transfers(self) -> tuple[Transfer, ...]:
        """The transfers between devices that new layouts show."""
        return ()

    def _install(self, scene: Scene) -> None:
        """Replace the scene by a new layout, keeping the part in view in place."""
        old = self.scene
        if self.marks.wire is not None or self.marks.moving is not None:  # of places of the layout that goes
            self.cancel_gesture()
        if scene.arrangement != self.arrangement:
            scene = scene.rearranged(self.arrangement)
        self.scene, self.open_groups, self.waiting = scene, scene.layout.open_groups, False
        self._mark_problems(scene)
        self._show_choices()
        if old is not None and not self._after:
            dx, dy = shift(old, scene, self.camera, (self.width(), self.height()), self._anchor)
            self.camera.x, self.camera.y = self.camera.x + dx, self.camera.y + dy
        self.mark()
        self.bars.show(True)
        self.bars.show_shapes(len(scene.layout.tree.through), self.show_shapes)
        self._recolour()
        self.tiles.clear()
        self.moved()
        after, self._after, self._anchor = self._after, [], None
        for step in after:
            step()
        self.show_path()
        if self.open_groups != self._signalled_open:
            self._signalled_open = self.open_groups
            self.open_changed.emit(self.open_groups)

    def mark(self, numbers: np.ndarray | None = None) -> None:
        """Update the marks of the selection; `numbers`: of its nodes, if known."""
        if self.scene is not None:
            numbers = numbers_of(self.scene, self.selection()) if numbers is None else numbers
            before = self.marks
            self.marks = mark_selection(self.scene, numbers)
            self.marks.band, self.marks.spot, self.marks.wire = before.band, before.spot, before.wire
            self.marks.moving, self.marks.frame = before.moving, before.frame
            mark_changed(self.scene, self.marks, numbers_of(self.scene, self._changed))
            self.update()
