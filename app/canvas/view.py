"""The graph canvas: a widget that shows a graph, with the interface for the window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from PySide6.QtCore import QKeyCombination, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QCursor, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.arranged_view import ArrangedView
from espalier.app.canvas.colouring import MODES
from espalier.app.canvas.node_search import find
from espalier.app.canvas.overlay import numbers_of
from espalier.app.canvas.picture import write_graph
from espalier.app.canvas.wires import Edge, edge_of
from espalier.app.theme import LIGHT, Palette
from espalier.app.widgets.drag_handle import offer_picture

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
ADD_OPERATION = QKeyCombination(Qt.KeyboardModifier.ShiftModifier, Qt.Key.Key_A)


class GraphCanvas(ArrangedView):
    """Shows a graph: pan, zoom, select, expand and collapse groups, colour by a metric."""

    selection_changed = Signal(tuple)
    node_activated = Signal(str)
    menu_requested = Signal(QPoint)  # screen position; the nodes under the pointer are selected
    edge_menu_requested = Signal(object, QPoint)  # an Edge
    group_menu_requested = Signal(str, QPoint)  # the path of a group
    fold_menu_requested = Signal(object, int, QPoint)  # a Fold, the bar or -1
    frame_menu_requested = Signal(int, QPoint)  # its place in the arrangement
    operation_wanted = Signal(object, object)  # an Edge or None for the selected node; a pixel or None
    wire_connected = Signal(str, str, QPoint)  # node whose result, node that is to take it
    key_pressed = Signal(object)  # one of EDIT_KEYS, with nodes selected

    def __init__(self, parent: QWidget | None = None, palette: Palette = LIGHT) -> None:
        self._selected: tuple[str, ...] = ()
        super().__init__(parent, palette)
        self.handle = offer_picture(self, write_graph, keys=False, menu=False)

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
        if reveal and new and len(new) == len(chosen):
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
        self.choose_frame(-1)
        if chosen != self._selected:
            self._selected = chosen
            self.mark(numbers)
            self.show_path()
            self.selection_changed.emit(chosen)

    def activate(self, node: str) -> None:
        """Emit `node_activated`."""
        self.node_activated.emit(node)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        spot = QPointF(event.pos())
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            hit = self.hit(spot)
            if hit is None or (hit.kind == "group" and not self.on_header(hit, spot)):
                if (edge := self.edge_under(spot)) is not None:
                    self.edge_menu_requested.emit(edge, event.globalPos())
                elif hit is None and self.graph is not None:
                    self.handle.open_menu(event.globalPos())
                return
            if self.scene is not None and hit is not None and hit.kind == "group":
                number = int(self.scene.layout.groups[hit.place])
                self.select(self.members(hit))
                self.group_menu_requested.emit(self.scene.layout.tree.groups[number].path, event.globalPos())
                return
            if self.scene is not None and hit is not None and hit.kind == "fold":
                self.select(self.members(hit))
                self.fold_menu_requested.emit(self.scene.layout.folds[hit.place], hit.bar, event.globalPos())
                return
            if self.scene is not None and hit is not None and hit.kind == "frame":
                self.click(spot, False)
                self.frame_menu_requested.emit(self.chosen_frame, event.globalPos())
                return
            nodes = self.members(hit) if hit else []
            if not set(nodes) <= set(self._selected):
                self.select(nodes)
        if self._selected:
            self.menu_requested.emit(event.globalPos())

    def edge_under(self, spot: QPointF) -> Edge | None:
        """The edge at a pixel, where nothing but the ground of a group lies under the pointer."""
        hit = self.hit(spot)
        if self.scene is None or (hit is not None and (hit.kind != "group" or self.on_header(hit, spot))):
            return None
        edge = self.scene.edge_at(*self.camera.to_canvas(spot.x(), spot.y()), 6 / self.camera.scale)
        return edge_of(self.scene, edge) if edge is not None else None

    def node_under(self, spot: QPointF) -> str | None:
        """The node whose card is at a pixel."""
        hit = self.hit(spot)
        return self.members(hit)[0] if hit is not None and hit.kind == "node" else None

    def pointer(self) -> QPoint:
        """The pixel under the pointer; the middle of the canvas where the pointer is elsewhere."""
        spot = self.mapFromGlobal(QCursor.pos())
        return spot if self.rect().contains(spot) else self.rect().center()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """On an edge: ask what to insert; on the title of a frame: rename it."""
        left, hit = event.button() == Qt.MouseButton.LeftButton, self.hit(event.position())
        if left and hit is not None and hit.kind == "frame":
            self.key_pressed.emit("rename")
        elif left and (edge := self.edge_under(event.position())) is not None:
            self.operation_wanted.emit(edge, event.position().toPoint())
        else:
            super().mouseDoubleClickEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = QKeyCombination(event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier, Qt.Key(event.key()))
        if keys == ADD_OPERATION:
            spot = self.pointer()
            self.operation_wanted.emit(self.edge_under(QPointF(spot)), spot)
            return
        if self._selected and keys in EDIT_KEYS:
            self.key_pressed.emit(EDIT_KEYS[keys])
        elif self._selected and keys.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._unfold_by_key(keys):
            event.accept()
        else:
            super().keyPressEvent(event)

    def _unfold_by_key(self, keys: QKeyCombination) -> bool:
        """Return expands what hides the selected node, Shift+Return folds the chain around it; False: neither."""
        node = self._selected[0]
        if keys.keyboardModifiers() == Qt.KeyboardModifier.ShiftModifier:
            return self.fold_around(node)
        if keys.keyboardModifiers() or not self.is_hidden(node):
            return False
        self.reveal(node)
        return True

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

    # ---- view state

    def view_state(self) -> dict[str, Any]:
        """The state of the view as JSON data."""
        scale, x, y = self.look()
        groups = None if self.open_groups is None else sorted(self.open_groups)
        return {"open": groups, "horizontal": self.horizontal, "mode": self.mode, "scale": scale,
                "centre": [x, y], "selection": list(self._selected), "casts": self.show_casts,
                "folding": self.folding, "shapes": self.show_shapes, "transfers": self.show_transfers}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a view; ids that no longer exist are ignored."""
        groups = state.get("open")
        self.open_groups = None if groups is None else frozenset(groups)
        self.horizontal = bool(state.get("horizontal", False))
        self.mode = state["mode"] if state.get("mode") in MODES else "kind"
        self.kit.casts = bool(state.get("casts", True))
        self.kit.transfers = bool(state.get("transfers", True))
        self.folding, self.show_shapes = bool(state.get("folding", True)), bool(state.get("shapes", False))
        self._after = [lambda: self._look(state)]
        self._lay_out()

    def _look(self, state: Mapping[str, Any]) -> None:
        self.select(state.get("selection", ()))
        if "scale" in state and "centre" in state:
            self.look_at(float(state["scale"]), *state["centre"])
        self._recolour()
