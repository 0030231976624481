"""What the canvas shows: the graph, its colours and problems, and the layouts that come and go beneath it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.colouring import MEASURED, MODES, Overlay, colouring
from espalier.app.canvas.hierarchy import changed_choices
from espalier.app.canvas.input import Input
from espalier.app.canvas.overlay import mark_selection, numbers_of
from espalier.app.canvas.relayout import Relayout, Wish
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.steady import shift
from espalier.app.theme import Palette
from espalier.model.graph.graph import Delta, Graph


class Sheet(Input):
    """A listening stage that holds a graph and keeps its scene up to date.

    `open_changed(paths)`: other groups are open now, whoever opened or closed them. `mode_chosen(mode)`: the nodes are
    to be coloured so, perhaps again.
    """

    open_changed = Signal(object)
    mode_chosen = Signal(str)

    def __init__(self, parent: QWidget | None, palette: Palette) -> None:
        super().__init__(parent, palette)
        self.graph: Graph | None = None
        self.mode, self.horizontal, self.show_scalars = "kind", False, False
        self.overlay: Overlay | None = None
        self._measured: dict[str, Overlay] = {}
        self.open_groups: frozenset[str] | None = None
        self._problems: dict[str, str] = {}
        self._preview: Graph | None = None
        self._after: list[Callable[[], None]] = []
        self._anchor: str | None = None
        self._told: frozenset[str] | None = None
        self._relayout = Relayout(self)
        self._relayout.arrived.connect(self._install)
        self.destroyed.connect(self._relayout.stop)
        self.chrome.mode_wanted.connect(self.set_mode)
        self.chrome.turn_wanted.connect(lambda: self.set_horizontal(not self.horizontal))

    # ---- what is shown

    def set_graph(self, graph: Graph | None, delta: Delta | None = None) -> None:
        """Show `graph`. Where only choices differ nothing moves; `delta` says which nodes to repaint."""
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
        """Show the choices of another state of this graph, of the same nodes, until None or until the graph changes."""
        self._preview = graph
        if self._drawn():
            self._show_choices()

    def _show_choices(self) -> None:
        """Show the choices of the preview, or of the graph itself, where others are shown."""
        shown = self._preview or self.graph
        if self.scene is not None and shown is not None and self.scene.graph is not shown:
            changed = changed_choices(self.scene.graph, shown)
            if changed:
                self._change(shown, changed)

    def _drawn(self) -> bool:
        return self.scene is not None and not self._relayout.busy

    def _clear(self) -> None:
        self._relayout.stop()
        self.scene, self.open_groups, self._told, self.waiting = None, None, None, False
        self.chrome.show(False)
        self.tiles.clear()
        self.kit.sprites.clear()
        self.select(())
        self.update()

    def _change(self, graph: Graph, changed: tuple[str, ...]) -> None:
        """Repaint the nodes whose choices differ, or the closed groups that hide them, and heads that tell of them."""
        assert self.scene is not None
        index = self.scene.layout.tree.index
        heads = self.scene.choices_changed(graph, changed)
        if self.mode == "kind":
            chips = self.scene.casts_changed(changed) if self.kit.casts else []
            self.repaint_areas({self.scene.rect_of(index[i]) for i in changed} | {*chips, *heads})
            self.chrome.tell(self.scene, self.mode, self.overlay.title if self.overlay else None)
        else:
            self._recolour()

    def set_problems(self, problems: Mapping[str, str]) -> None:
        """Mark nodes that have a problem; the text shows as a tool tip."""
        self._problems = dict(problems)
        if self.scene:
            self._mark_problems(self.scene)
            self.repaint_all()

    def _mark_problems(self, scene: Scene) -> None:
        index = scene.layout.tree.index
        scene.problems = {index[k]: v for k, v in self._problems.items() if k in index}

    def set_overlay(self, title: str, values: dict[str, float] | None) -> None:
        """Colour the nodes by values from outside; None goes back to the kinds of operation."""
        self.overlay = Overlay(title, values) if values is not None else None
        self.set_mode("overlay" if self.overlay else "kind")

    def set_measured(self, found: Mapping[str, Overlay]) -> None:
        """The values of the modes that are measured; one that is missing has not been."""
        if found != self._measured:
            self._measured = dict(found)
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
        self.chrome.minimap.set_scene(self.scene, self.tokens)
        self.chrome.tell(self.scene, self.mode, self.overlay.title if self.overlay else None)
        self.repaint_all()

    def set_palette(self, palette: Palette) -> None:
        """Change to light or dark."""
        self.tokens = self.kit.palette = palette
        self.chrome.set_palette(palette)
        self.tiles.clear()
        self._recolour()
        self.update()

    # ---- layout

    def set_horizontal(self, horizontal: bool) -> None:
        """Let the graph flow across instead of down."""
        if horizontal != self.horizontal:
            self.horizontal = horizontal
            self._after.append(self.start_look)
            self._lay_out()

    @property
    def show_casts(self) -> bool:
        """Whether edges say where formats change."""
        return self.kit.casts

    def set_show_casts(self, shown: bool) -> None:
        """Show or hide where formats change along the edges."""
        self.kit.casts = shown
        self.repaint_all()

    def set_show_scalars(self, shown: bool) -> None:
        """Show or hide the arithmetic on shapes."""
        if shown != self.show_scalars:
            self.show_scalars = shown
            self._lay_out(new=True)

    def _lay_out(self, new: bool = False) -> None:
        if self.graph is None:
            return
        known = self.scene is not None and not new and not self._relayout.busy
        self.waiting = True
        shown, before = self._preview or self.graph, self.scene if known else None
        wish = Wish(shown, before, self.open_groups, self.horizontal, self.show_scalars)
        self._relayout.request(wish)

    def _install(self, found: Scene) -> None:
        """A layout has arrived: exchange the scene, hold what the user looks at in place."""
        old = self.scene
        self.scene, self.open_groups, self.waiting = found, found.layout.open_groups, False
        self._mark_problems(found)
        self._show_choices()
        if old is not None and not self._after:
            dx, dy = shift(old, found, self.camera, (self.width(), self.height()), self._anchor)
            self.camera.x, self.camera.y = self.camera.x + dx, self.camera.y + dy
        self.mark()
        self.chrome.show(True)
        self._recolour()
        self.tiles.clear()
        self.moved()
        after, self._after, self._anchor = self._after, [], None
        for step in after:
            step()
        self.tell_place()
        if self.open_groups != self._told:
            self._told = self.open_groups
            self.open_changed.emit(self.open_groups)

    def mark(self, numbers: np.ndarray | None = None) -> None:
        """Mark the selection anew; `numbers`, where they are known, of its nodes."""
        if self.scene is not None:
            numbers = numbers_of(self.scene, self.selection()) if numbers is None else numbers
            before = self.marks
            self.marks = mark_selection(self.scene, numbers)
            self.marks.band, self.marks.spot, self.marks.wire = before.band, before.spot, before.wire
            self.update()
