"""The graph canvas: one widget that shows a graph, and the doors through which the window drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.canvas.colouring import MODES, Overlay, colouring
from app.canvas.find import find
from app.canvas.hierarchy import same_structure
from app.canvas.input import Input
from app.canvas.overlay import mark_selection
from app.canvas.relayout import Relayout, Wish
from app.canvas.scene import Hit, Scene
from app.theme import LIGHT, Palette
from model.graph import Delta, Graph


class GraphCanvas(Input):
    """Shows a graph: pan, zoom, select, open and close groups, colour by a figure."""

    selection_changed = Signal(tuple)
    node_activated = Signal(str)
    group_toggled = Signal(str, bool)

    def __init__(self, parent: QWidget | None = None, palette: Palette = LIGHT) -> None:
        super().__init__(parent, palette)
        self.graph: Graph | None = None
        self.mode, self.horizontal, self.show_scalars = "kind", False, False
        self.overlay: Overlay | None = None
        self.open_groups: frozenset[str] | None = None
        self._selected: tuple[str, ...] = ()
        self._problems: dict[str, str] = {}
        self._after: list[Callable[[], None]] = []
        self._anchor: int | None = None
        self._relayout = Relayout(self)
        self._relayout.arrived.connect(self._install)
        self.destroyed.connect(self._relayout.stop)

    # ---- what is shown

    def set_graph(self, graph: Graph | None, delta: Delta | None = None) -> None:
        """Show `graph`. Where only choices differ nothing moves; `delta` says which nodes to repaint."""
        before, self.graph = self.graph, graph
        if graph is None:
            self._clear()
        elif before is not None and self._drawn() and same_structure(before, graph):
            self._change(before, graph, delta)
        else:
            kin = before is not None and 3 * len(before.nodes.keys() & graph.nodes.keys()) > len(before)
            if not kin:
                self._after, self.open_groups, self._anchor = [self.start_look], None, None
            self._keep_selection()
            self._lay_out(new=True)

    def _drawn(self) -> bool:
        return self.scene is not None and not self._relayout.busy

    def _clear(self) -> None:
        self._relayout.stop()
        self.scene, self.open_groups, self.waiting = None, None, False
        self.chrome.show(False)
        self.tiles.clear()
        self.select(())
        self.update()

    def _keep_selection(self) -> None:
        known = self.graph.nodes if self.graph else {}
        kept = tuple(i for i in self._selected if i in known)
        if kept != self._selected:
            self._selected = kept
            self.selection_changed.emit(kept)

    def _change(self, before: Graph, graph: Graph, delta: Delta | None) -> None:
        """Repaint the nodes whose choices differ, and the groups that hide them."""
        assert self.scene is not None
        changed = (delta or graph.delta(before)).changed
        index = self.scene.layout.tree.index
        self.scene.graph = graph
        self.scene.figures.update(graph, changed, index)
        if self.mode == "kind":
            numbers = [index[i] for i in changed]
            groups = {g for i in numbers for g in self.scene.layout.tree.ancestors(self.scene.layout.tree.home[i])}
            rects = [self.scene.group_place[g] for g in groups if g in self.scene.group_place]
            heads = [(*tuple(r[:3]), 44.0) for r in self.scene.layout.group_rects[rects].tolist()]
            self.tiles.drop([*self.node_areas(numbers), *heads])
            self.chrome.tell(self.scene, self.mode, "")
            self.update()
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

    def set_mode(self, mode: str) -> None:
        """Colour by "kind", "bits", "sparsity", "parameters" or "overlay"."""
        self.mode = mode if mode in MODES or (mode == "overlay" and self.overlay) else "kind"
        self._recolour()

    def _recolour(self) -> None:
        if self.scene is None:
            return
        tree = self.scene.layout.tree
        self.scene.colours = colouring(self.mode, tree, self.scene.figures, self.overlay, self.tokens)
        self.chrome.tell(self.scene, self.mode, self.overlay.title if self.overlay else "")
        self.chrome.minimap.set_scene(self.scene, self.tokens)
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

    def set_show_scalars(self, shown: bool) -> None:
        """Show or hide the arithmetic on shapes."""
        if shown != self.show_scalars:
            self.show_scalars = shown
            self._lay_out(new=True)

    def _lay_out(self, new: bool = False) -> None:
        if self.graph is None:
            return
        known = self.scene is not None and not new and not self._relayout.busy
        tree, figures = (self.scene.layout.tree, self.scene.figures) if self.scene and known else (None, None)
        self.waiting = True
        wish = Wish(self.graph, tree, self.open_groups, self.horizontal, self.show_scalars, figures)
        self._relayout.request(wish)

    def _install(self, found: Scene) -> None:
        """A layout has arrived: exchange the scene, hold what the user looks at in place."""
        old = self.scene
        self.scene, self.open_groups, self.waiting = found, found.layout.open_groups, False
        self._mark_problems(found)
        if old is not None and old.layout.tree is found.layout.tree and not self._after:
            self._hold(old, found)
        self.marks.hover = self.marks.hover_edge = None
        self._mark()
        self.chrome.show(True)
        self._recolour()
        self.tiles.clear()
        after, self._after, self._anchor = self._after, [], None
        for step in after:
            step()
        self.moved()
        self.tell_place()

    def _hold(self, old: Scene, new: Scene) -> None:
        """Keep the toggled group, or else what is nearest to the middle, where it was on the screen."""
        anchor = self._anchor
        if anchor is None or anchor not in old.group_place or anchor not in new.group_place:
            x, y = self.camera.to_canvas(self.width() / 2, self.height() / 2)
            shared = [g for g in old.group_place if g in new.group_place]
            if not shared:
                return
            rects = old.layout.group_rects
            anchor = min(
                shared, key=lambda g: abs(rects[old.group_place[g], 0] - x) + abs(rects[old.group_place[g], 1] - y)
            )
        before = old.layout.group_rects[old.group_place[anchor]]
        after = new.layout.group_rects[new.group_place[anchor]]
        self.camera.x += float(after[0] + after[2] / 2 - before[0] - before[2] / 2)
        self.camera.y += float(after[1] - before[1])

    # ---- selection

    def selection(self) -> tuple[str, ...]:
        """Ids of the selected nodes."""
        return self._selected

    def select(self, ids: Iterable[str], reveal: bool = False) -> None:
        """Select nodes; `reveal` opens what hides the first and brings it into view."""
        known = self.graph.nodes if self.graph else {}
        chosen = tuple(dict.fromkeys(i for i in ids if i in known))
        if chosen != self._selected:
            self._selected = chosen
            self._mark()
            self.selection_changed.emit(chosen)
        if reveal and chosen:
            self.reveal(chosen[0])

    def _mark(self) -> None:
        if self.scene is None:
            return
        band, spot = self.marks.band, self.marks.spot
        self.marks = mark_selection(self.scene, self._selected)
        self.marks.band, self.marks.spot = band, spot
        self.update()

    def members(self, hit: Hit) -> list[str]:
        """Ids of the nodes that a hit stands for."""
        assert self.scene is not None
        layout = self.scene.layout
        if hit.kind == "node":
            return [layout.tree.ids[layout.nodes[hit.place]]]
        return [layout.tree.ids[i] for i in sorted(layout.tree.members(int(layout.groups[hit.place])))]

    def activate(self, node: str) -> None:
        """A node was double-clicked."""
        self.node_activated.emit(node)

    def find(self, text: str) -> list[str]:
        """Ids of the nodes that match, the best first."""
        return find(self.graph, text) if self.graph else []

    def reveal(self, node: str) -> None:
        """Bring a node into view, opening the groups that hide it."""
        if self.scene is None or node not in self.scene.layout.tree.index:
            return
        tree = self.scene.layout.tree
        number = tree.index[node]
        needed = frozenset(tree.groups[g].path for g in tree.ancestors(max(tree.home[number], 0)))
        if needed <= (self.open_groups or frozenset()):
            self.bring(number)
        else:
            self._after.append(lambda: self.bring(number))
            self._set_open((self.open_groups or frozenset()) | needed)

    # ---- groups

    def toggle(self, place: int) -> None:
        """Open or close the group at a place of the layout."""
        if self.scene:
            number = int(self.scene.layout.groups[place])
            path = self.scene.layout.tree.groups[number].path
            self._open(path, not self.scene.layout.group_open[place])

    def open_group(self, path: str) -> None:
        """Open a group, and those around it."""
        self._open(path, True)

    def close_group(self, path: str) -> None:
        """Close a group."""
        self._open(path, False)

    def open_all(self) -> None:
        """Open every group."""
        if self.scene:
            self._set_open(frozenset(g.path for g in self.scene.layout.tree.groups[1:]))

    def close_all(self) -> None:
        """Close every group."""
        self._set_open(frozenset())

    def _open(self, path: str, opened: bool) -> None:
        if self.scene is None:
            return
        tree, now = self.scene.layout.tree, self.open_groups or frozenset()
        number = tree.group_of(path)
        path = tree.groups[number].path
        if number and (path in now) != opened:
            around = {tree.groups[g].path for g in tree.ancestors(number)}
            self._anchor = number
            self._set_open(now | around if opened else now - {path})
            self.group_toggled.emit(path, opened)

    def _set_open(self, groups: frozenset[str]) -> None:
        if groups != self.open_groups:
            self.open_groups = groups
            self._lay_out()

    # ---- remembering

    def view_state(self) -> dict[str, Any]:
        """What to remember of the view, JSON-able."""
        x, y = self.camera.to_canvas(self.width() / 2, self.height() / 2)
        groups = None if self.open_groups is None else sorted(self.open_groups)
        return {"open": groups, "horizontal": self.horizontal, "mode": self.mode, "scale": self.camera.scale,
                "centre": [x, y], "selection": list(self._selected)}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to a remembered view; what no longer exists is left out."""
        groups = state.get("open")
        self.open_groups = None if groups is None else frozenset(groups)
        self.horizontal = bool(state.get("horizontal", False))
        self.mode = state["mode"] if state.get("mode") in MODES else "kind"
        self._after = [lambda: self._look(state)]
        self._lay_out()

    def _look(self, state: Mapping[str, Any]) -> None:
        self.select(state.get("selection", ()))
        if "scale" in state and "centre" in state:
            self.camera.scale = float(state["scale"])
            self.centre(*state["centre"])
        self._recolour()
