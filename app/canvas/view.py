"""The graph canvas: a widget that shows a graph, with the interface for the window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from PySide6.QtCore import QKeyCombination, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.colouring import MODES
from espalier.app.canvas.node_search import find
from espalier.app.canvas.overlay import numbers_of
from espalier.app.canvas.scene import Hit
from espalier.app.canvas.scene_view import SceneView
from espalier.app.canvas.wires import edge_of
from espalier.app.theme import LIGHT, Palette

_CONTROL = Qt.KeyboardModifier.ControlModifier
EDIT_KEYS: dict[QKeyCombination, str] = {
    QKeyCombination(Qt.Key.Key_Delete): "delete",
    QKeyCombination(Qt.Key.Key_F2): "rename",
    QKeyCombination(Qt.Key.Key_M): "mute",
    QKeyCombination(_CONTROL, Qt.Key.Key_C): "copy",
    QKeyCombination(_CONTROL, Qt.Key.Key_X): "cut",
    QKeyCombination(_CONTROL, Qt.Key.Key_V): "paste",
    QKeyCombination(_CONTROL, Qt.Key.Key_D): "duplicate",
}


class GraphCanvas(SceneView):
    """Shows a graph: pan, zoom, select, expand and collapse groups, colour by a metric."""

    selection_changed = Signal(tuple)
    node_activated = Signal(str)
    group_toggled = Signal(str, bool)
    menu_requested = Signal(QPoint)  # screen position; the nodes under the pointer are selected
    edge_menu_requested = Signal(object, QPoint)  # an Edge
    group_menu_requested = Signal(str, QPoint)  # the path of a group
    wire_connected = Signal(str, str, QPoint)  # node whose result, node that is to take it
    key_pressed = Signal(object)  # one of EDIT_KEYS, with nodes selected

    def __init__(self, parent: QWidget | None = None, palette: Palette = LIGHT) -> None:
        self._selected: tuple[str, ...] = ()
        super().__init__(parent, palette)

    # ---- selection

    def selection(self) -> tuple[str, ...]:
        """Ids of the selected nodes."""
        return self._selected

    def select(self, ids: Iterable[str], reveal: bool = False) -> None:
        """Select nodes; `reveal`: bring the first newly selected one into view, expanding groups that hide it."""
        nodes = self.graph.nodes if self.graph else {}
        chosen, before = tuple(dict.fromkeys(filter(nodes.__contains__, ids))), frozenset(self._selected)
        self._choose(chosen, None)
        new = chosen if len(chosen) == 1 else [i for i in chosen if i not in before]
        if reveal and new and len(new) in (1, len(chosen)):
            self.reveal(new[0])  # extending the selection leaves the camera in place

    def select_numbers(self, numbers: np.ndarray, add: bool) -> None:
        """Select nodes by their number in the hierarchy; `add`: keep the present selection."""
        if self.scene is None:
            return
        if add and self._selected:
            before = numbers_of(self.scene, self._selected)
            numbers = np.concatenate([before, numbers[~np.isin(numbers, before)]])
        self._choose(tuple(map(self.scene.layout.tree.ids.__getitem__, numbers.tolist())), numbers)

    def _choose(self, chosen: tuple[str, ...], numbers: np.ndarray | None) -> None:
        if chosen != self._selected:
            self._selected = chosen
            self.mark(numbers)
            self.show_path()
            self.selection_changed.emit(chosen)

    def members(self, hit: Hit) -> list[str]:
        """Ids of the nodes that a hit represents; a stub represents the other end of its edge."""
        assert self.scene is not None
        layout = self.scene.layout
        if hit.kind == "node":
            return [layout.tree.ids[layout.nodes[hit.place]]]
        if hit.kind == "stub":
            stub, edges = layout.tree.stubs[layout.stubs[hit.place]], layout.tree.edges
            ends = edges[edges[:, 0] == stub.source, 1].tolist() if stub.uses else [stub.source, *stub.others]
            return [layout.tree.ids[i] for i in ends]
        return [layout.tree.ids[i] for i in sorted(layout.tree.members(int(layout.groups[hit.place])))]

    def activate(self, node: str) -> None:
        """Emit `node_activated`."""
        self.node_activated.emit(node)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        spot = QPointF(event.pos())
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            hit = self.hit(spot)
            if self.scene is not None and (hit is None or (hit.kind == "group" and not self.on_header(hit, spot))):
                x, y = self.camera.to_canvas(spot.x(), spot.y())
                if (edge := self.scene.edge_at(x, y, 6 / self.camera.scale)) is not None:
                    self.edge_menu_requested.emit(edge_of(self.scene, edge), event.globalPos())
                return
            if self.scene is not None and hit is not None and hit.kind == "group":
                number = int(self.scene.layout.groups[hit.place])
                self.select(self.members(hit))
                self.group_menu_requested.emit(self.scene.layout.tree.groups[number].path, event.globalPos())
                return
            nodes = self.members(hit) if hit else []
            if not set(nodes) <= set(self._selected):
                self.select(nodes)
        if self._selected:
            self.menu_requested.emit(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = QKeyCombination(event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier, Qt.Key(event.key()))
        if self._selected and keys in EDIT_KEYS:
            self.key_pressed.emit(EDIT_KEYS[keys])
        else:
            super().keyPressEvent(event)

    def connect_wire(self, source: str, target: str, spot: QPointF) -> None:
        """A wire was dropped on a node."""
        self.wire_connected.emit(source, target, self.mapToGlobal(spot.toPoint()))

    def here(self) -> int:
        """The group of the selected node, else the one in the middle of the view."""
        if self.scene is None or len(self._selected) != 1:
            return super().here()
        tree = self.scene.layout.tree
        number = tree.index.get(self._selected[0], -1)
        return tree.home[number] if number >= 0 and tree.home[number] >= 0 else super().here()

    def find(self, text: str) -> list[str]:
        """Ids of the matching nodes, best first."""
        if self.graph is None:
            return []
        if self.scene is not None and not self.waiting:
            return self.scene.finder.find(text)
        return find(self.graph, text)

    def reveal(self, node: str) -> None:
        """Bring a node into view, expanding the groups that hide it."""
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
        """Expand or collapse the group at an index of the layout."""
        if self.scene:
            number = int(self.scene.layout.groups[place])
            path = self.scene.layout.tree.groups[number].path
            self._open(path, not self.scene.layout.group_open[place])

    def open_group(self, path: str) -> None:
        """Expand a group and those around it."""
        self._open(path, True)

    def close_group(self, path: str) -> None:
        """Collapse a group."""
        self._open(path, False)

    def set_open(self, path: str, opened: bool) -> None:
        """Expand or collapse the group of exactly this path, if it is drawn as a group."""
        if self.scene is not None:
            tree = self.scene.layout.tree
            if tree.groups[tree.paths.get(path, 0)].path == path:
                self._open(path, opened)

    def set_all_open(self, opened: bool) -> None:
        """Expand or collapse all groups."""
        self.open_all() if opened else self.close_all()

    def open_all(self) -> None:
        """Expand all groups."""
        if self.scene:
            self._set_open(frozenset(g.path for g in self.scene.layout.tree.groups[1:]))

    def close_all(self) -> None:
        """Collapse all groups."""
        self._set_open(frozenset())

    def _open(self, path: str, opened: bool) -> None:
        if self.scene is None:
            return
        tree, expanded = self.scene.layout.tree, self.open_groups or frozenset()
        number = tree.group_of(path)
        path = tree.groups[number].path
        if number and (path in expanded) != opened:
            around = {tree.groups[g].path for g in tree.ancestors(number)}
            self._anchor = path if self._in_view(number) else None
            self._set_open(expanded | around if opened else expanded - {path})
            self.group_toggled.emit(path, opened)

    def _in_view(self, number: int) -> bool:
        """Whether part of a group is in view, so that its header stays in place."""
        assert self.scene is not None
        place = self.scene.group_place.get(number)
        return place is not None and self.seen().intersects(QRectF(*self.scene.layout.group_rects[place].tolist()))

    def _set_open(self, groups: frozenset[str]) -> None:
        if groups != self.open_groups:
            self.open_groups = groups
            self._lay_out()

    # ---- view state

    def view_state(self) -> dict[str, Any]:
        """The state of the view as JSON data."""
        scale, x, y = self.look()
        groups = None if self.open_groups is None else sorted(self.open_groups)
        return {"open": groups, "horizontal": self.horizontal, "mode": self.mode, "scale": scale,
                "centre": [x, y], "selection": list(self._selected), "casts": self.show_casts}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a view; ids that no longer exist are ignored."""
        groups = state.get("open")
        self.open_groups = None if groups is None else frozenset(groups)
        self.horizontal = bool(state.get("horizontal", False))
        self.mode = state["mode"] if state.get("mode") in MODES else "kind"
        self.kit.casts = bool(state.get("casts", True))
        self._after = [lambda: self._look(state)]
        self._lay_out()

    def _look(self, state: Mapping[str, Any]) -> None:
        self.select(state.get("selection", ()))
        if "scale" in state and "centre" in state:
            self.look_at(float(state["scale"]), *state["centre"])
        self._recolour()
