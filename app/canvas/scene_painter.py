"""Paints an area of the scene in batches, with level of detail by zoom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath

from espalier.app.canvas.box_index import Indices
from espalier.app.canvas.camera import Area
from espalier.app.canvas.fold_painter import paint_fold
from espalier.app.canvas.headings import paint_closed, paint_far_closed, paint_far_heads, paint_head
from espalier.app.canvas.layout import HEAD, MAX_LABEL_WIDTH
from espalier.app.canvas.node_metrics import port_formats
from espalier.app.canvas.own_frames import paint_own_frames, paint_pins, paint_tabs
from espalier.app.canvas.port_rows import PORTS_FROM
from espalier.app.canvas.primitives import draw_arrowheads, draw_lines, draw_rects, font, pen, route_path
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.size_bars import SHOWN_FROM, SizeBars
from espalier.app.canvas.sprites import DETAILS_FROM, Face, Sprites, write
from espalier.app.canvas.transfer_painter import REACH, paint_transfer_chips, paint_transfer_edges
from espalier.app.figures.captions import NODE_HEIGHT
from espalier.app.theme import EDGE_WIDTH, GROUP_RADIUS, SECONDARY, Palette

DETAIL_FROM = 0.35  # scale below which plain rectangles and straight lines are painted
CURVES_FROM = 0.16
STUB_NAMES_FROM = 0.5
MIN_GROUP = 3  # pixels
CHIP = (32.0, 160.0)  # canvas units that the chip of a cast extends beyond its node: vertical, horizontal layout
MAX_EDGES, MAX_NODES = 1500, 4000  # per area at small zoom


class ScenePainter:
    """Paints scenes; caches sprites and edge paths."""

    def __init__(self, palette: Palette, casts: bool = True) -> None:
        self.palette, self.casts, self.transfers = palette, casts, True
        self.sprites = Sprites()
        self._paths: dict[int, QPainterPath] = {}
        self._scene: Scene | None = None

    def paint(self, painter: QPainter, scene: Scene, area: Area, scale: float, ratio: float) -> None:
        """Paint the part of `scene` in `area`; `painter` maps canvas units to pixels."""
        if self._scene is None or scene.layout is not self._scene.layout:
            self._paths.clear()
        self._scene = scene
        self.sprites.prepare(scale, ratio, self.palette)
        x, y, w, h = area
        reach = (x - 8, y - 8, w + 16, h + 16)
        groups = large_enough(scene, scene.groups_in(reach), scale)
        edges = scene.edges_in(reach)
        nodes, folds = scene.nodes_in(reach), scene.folds_in(reach)
        if (lifted := scene.lifted) is not None:
            groups, folds = groups[~lifted.groups[groups]], folds[~lifted.folds[folds]]
            edges, nodes = edges[~lifted.edges[edges]], nodes[~lifted.nodes[nodes]]
        self._frames(painter, scene, groups, scale)
        if scene.layout.own_frames:
            paint_own_frames(painter, scene.layout.own_frames, reach, self.palette)
        self._edges(painter, scene, edges, scale)
        if scene.transfers is not None:
            draw = partial(self.draw_edges, painter, scene, scale=scale)
            paint_transfer_edges(painter, scene.transfers, edges, scale, draw)
        for place in folds.tolist():
            paint_fold(painter, scene, place, scale, self.palette)
        if scale >= DETAIL_FROM:
            self._near(painter, scene, area, groups, edges, nodes, scale)
        else:
            self._far_nodes(painter, scene, nodes, scale)
            self._far_closed(painter, scene, groups, scale)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            paint_far_heads(painter, scene, groups[scene.layout.group_open[groups]].tolist(), scale, self.palette)
        if scene.sizes is not None and scale >= SHOWN_FROM:
            self._size_bars(painter, scene, scene.sizes, nodes)
        if scene.layout.own_frames:
            paint_tabs(painter, scene.layout.own_frames, reach, scale, self.palette)

    def _near(
        self,
        painter: QPainter,
        scene: Scene,
        area: Area,
        groups: Indices,
        edges: Indices,
        nodes: Indices,
        scale: float,
    ) -> None:
        """Paint what has texts: cards, stubs, shapes, chips, headers, pins."""
        x, y, w, h = area
        reach = (x - 8, y - 8, w + 16, h + 16)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for place in groups[~scene.layout.group_open[groups]].tolist():
            paint_closed(painter, scene, place, scale, self.palette)
        self._nodes(painter, scene, nodes)
        self._stubs(painter, scene, reach, scale)
        if scale >= DETAILS_FROM:
            self._shapes(painter, scene, edges)
            if self.casts:
                more = CHIP[scene.layout.horizontal]
                self._chips(painter, scene, (x - more, y - more, w + 2 * more, h + 2 * more))
            if scene.transfers is not None:
                more = (x - REACH, y - REACH, w + 2 * REACH, h + 2 * REACH)
                paint_transfer_chips(painter, scene.transfers.chips(more, scene.edges_in(more)), self.palette)
        opened = groups[scene.layout.group_open[groups]]
        heads = scene.layout.group_rects[opened, 1]
        for place in opened[(heads + HEAD >= reach[1]) & (heads <= reach[1] + reach[3])].tolist():
            paint_head(painter, scene, place, scale, self.palette)
        if scene.layout.pinned:
            paint_pins(painter, scene, reach, self.palette)

    def paint_boxes(self, painter: QPainter, scene: Scene, boxes: Mapping[str, Indices], scale: float) -> None:
        """Paint nodes, collapsed groups, folds and stubs by index, as `paint` does near."""
        self.sprites.prepare(scale, painter.device().devicePixelRatioF(), self.palette)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for place in boxes["fold"].tolist():
            paint_fold(painter, scene, place, scale, self.palette)
        for place in boxes["group"].tolist():
            paint_closed(painter, scene, place, scale, self.palette)
        self._nodes(painter, scene, boxes["node"])
        self._stub_boxes(painter, scene, boxes["stub"], scale)

    def forget(self) -> None:
        """Let go of the last scene, whose graph may be large, with its paths and sprites."""
        self._scene = None
        self._paths.clear()
        self.sprites.clear()

    def skeleton(self, painter: QPainter, scene: Scene, area: Area, scale: float) -> None:
        """Paint only the frames of large groups, as a placeholder."""
        groups = large_enough(scene, scene.groups_in(area), scale / 2)
        painter.setPen(pen(self.palette.line))
        for opened, colour in ((True, self.palette.group), (False, self.palette.panel)):
            painter.setBrush(QColor(colour))
            draw_rects(painter, scene.layout.group_rects[groups[scene.layout.group_open[groups] == opened]])

    def _frames(self, painter: QPainter, scene: Scene, groups: Indices, scale: float) -> None:
        """Paint the backgrounds of expanded groups, outer ones first."""
        layout = scene.layout
        opened = groups[layout.group_open[groups]]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, scale >= CURVES_FROM)
        for place in opened.tolist():
            depth = layout.tree.groups[layout.groups[place]].depth
            painter.setPen(pen(self.palette.line))
            painter.setBrush(QColor(self.palette.group if depth % 2 else self.palette.background))
            x, y, w, h = layout.group_rects[place].tolist()
            if scale < CURVES_FROM:
                painter.drawRect(QRectF(x, y, w, h))
            else:
                painter.drawRoundedRect(QRectF(x, y, w, h), GROUP_RADIUS, GROUP_RADIUS)

    def _edges(self, painter: QPainter, scene: Scene, edges: Indices, scale: float) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if scale < CURVES_FROM:
            self._lines(painter, scene, edges)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(pen(self.palette.edge, EDGE_WIDTH if scale >= DETAIL_FROM else 1.0))
        self.draw_edges(painter, scene, edges, scale)

    def draw_edges(self, painter: QPainter, scene: Scene, edges: Indices, scale: float) -> None:
        """Paint edges with the painter's pen, with arrowheads if the scale is large enough."""
        for path in self._route_paths(scene, edges.tolist()):
            painter.drawPath(path)
        if scale >= DETAIL_FROM:
            layout = scene.layout
            ends = layout.starts[1:][edges[layout.arrows[edges]]] - 1
            draw_arrowheads(painter, layout.points[ends], layout.horizontal)

    def _route_paths(self, scene: Scene, edges: Iterable[int]) -> Iterable[QPainterPath]:
        """The cached paths of edges."""
        points, starts = scene.layout.points, scene.layout.starts
        for k in edges:
            path = self._paths.get(k)
            if path is None:
                path = self._paths[k] = route_path(points[starts[k] : starts[k + 1]], scene.layout.horizontal)
            yield path

    def _lines(self, painter: QPainter, scene: Scene, edges: Indices) -> None:
        if len(edges) > MAX_EDGES:
            edges = edges[:: len(edges) // MAX_EDGES + 1]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(pen(self.palette.edge))
        starts = scene.layout.starts
        counts = starts[edges + 1] - starts[edges] - 1
        first = starts[edges] - edges
        rows = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        draw_lines(painter, scene.segments[rows])

    def _far_nodes(self, painter: QPainter, scene: Scene, nodes: Indices, scale: float) -> None:
        """Paint nodes as plain rectangles, one call per colour."""
        if len(nodes) > MAX_NODES:
            nodes = nodes[:: len(nodes) // MAX_NODES + 1]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        codes = scene.colours.codes[scene.layout.nodes[nodes]]
        for code in np.unique(codes).tolist():
            painter.setBrush(QColor(scene.colours.colours[code]))
            rects = scene.layout.node_rects[nodes[codes == code]]
            if scale * NODE_HEIGHT < 1.5:
                rects = rects.copy()
                rects[:, 3] = np.maximum(rects[:, 3], 1.5 / scale)
            draw_rects(painter, rects)

    def _far_closed(self, painter: QPainter, scene: Scene, groups: Indices, scale: float) -> None:
        """Paint collapsed groups in a tint of their main colour, with their names where they fit."""
        layout = scene.layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for place in groups[~layout.group_open[groups]].tolist():
            paint_far_closed(painter, scene, place, scale, self.palette)

    def _nodes(self, painter: QPainter, scene: Scene, nodes: Indices) -> None:
        transform = painter.transform()
        painter.save()
        painter.resetTransform()
        rects = scene.layout.node_rects[nodes]
        scale, ratio = transform.m11(), painter.device().devicePixelRatioF()
        offset = (transform.dx() - 2 * scale, transform.dy() - 2 * scale)
        spots = (np.rint((rects[:, :2] * scale + offset) * ratio) / ratio).tolist()
        for i, (x, y) in zip(scene.layout.nodes[nodes].tolist(), spots, strict=True):
            painter.drawPixmap(QPointF(x, y), self.sprites.node(face_of(scene, i, scale >= PORTS_FROM)))
        painter.restore()

    def _size_bars(self, painter: QPainter, scene: Scene, sizes: SizeBars, nodes: Indices) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        bars = sizes.rects(scene.layout.nodes[nodes], scene.layout.node_rects[nodes])
        for colour, rects in zip((self.palette.chip, self.palette.text), bars, strict=True):
            painter.setBrush(QColor(colour))
            draw_rects(painter, rects)

    def _stubs(self, painter: QPainter, scene: Scene, area: Area, scale: float) -> None:
        stubs = scene.stubs_in(area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        self._stub_boxes(painter, scene, stubs if scene.lifted is None else stubs[~scene.lifted.stubs[stubs]], scale)

    def _stub_boxes(self, painter: QPainter, scene: Scene, stubs: Indices, scale: float) -> None:
        palette, layout = self.palette, scene.layout
        for place in stubs.tolist():
            x, y, w, h = layout.stub_rects[place].tolist()
            painter.setPen(pen(palette.line))
            painter.setBrush(QColor(palette.chip if scale >= STUB_NAMES_FROM else palette.control))
            painter.drawRoundedRect(QRectF(x, y, w, h), h / 2, h / 2)
            if scale >= STUB_NAMES_FROM:
                stub = layout.tree.stubs[layout.stubs[place]]
                mark = "→ " if stub.uses else "↳ "
                write(painter, mark + stub.label, font(SECONDARY), palette.muted, QRectF(x + 8, y, w - 14, h))

    def _chips(self, painter: QPainter, scene: Scene, area: Area) -> None:
        """Paint the chips of format conversions; a mark where the text does not fit."""
        face = font(SECONDARY)
        for chip in scene.casts_in(area):
            x, y, w, h = chip.box
            painter.setBrush(QColor(self.palette.accent_ground if chip.words else self.palette.accent))
            painter.setPen(pen(self.palette.accent if chip.words else self.palette.panel))
            painter.drawRoundedRect(QRectF(x, y, w, h), h / 2, h / 2)
            if chip.words:
                painter.setFont(face)
                painter.setPen(QColor(self.palette.text))
                painter.drawText(QRectF(x, y, w, h), Qt.AlignmentFlag.AlignCenter, chip.words)

    def _shapes(self, painter: QPainter, scene: Scene, edges: Indices) -> None:
        """Paint the shapes beside edges that have room."""
        layout = scene.layout
        face = font(SECONDARY)
        metrics = QFontMetricsF(face)
        painter.setFont(face)
        painter.setPen(QColor(self.palette.muted))
        for k in edges[layout.labels[edges, 2] > 40].tolist():
            shape = scene.shape(k)
            x, y, room = layout.labels[k].tolist()
            width = metrics.horizontalAdvance(shape)
            if shape and width + 14 <= min(room, MAX_LABEL_WIDTH):
                painter.drawText(QRectF(x + 6, y - 8, width + 2, 16), Qt.AlignmentFlag.AlignVCenter, shape)


def large_enough(scene: Scene, groups: Indices, scale: float) -> Indices:
    """The groups that are at least MIN_GROUP pixels wide and high."""
    rects = scene.layout.group_rects[groups]
    return groups[np.minimum(rects[:, 2], rects[:, 3]) * scale >= MIN_GROUP]


def face_of(scene: Scene, i: int, with_ports: bool = False) -> Face:
    """The appearance of node i; `with_ports`: with the format of each port."""
    caption = scene.layout.tree.captions[i]
    assert caption is not None
    code = int(scene.colours.codes[i])
    node = scene.graph.nodes[scene.layout.tree.ids[i]]
    written = node.annotation
    ports = port_formats(node) if with_ports else ()
    adapter = scene.figures.adapters[i]
    return Face(
        caption.name,
        f"{adapter} · {caption.detail}" if ports and adapter else caption.detail,
        scene.figures.badges[i],
        float(scene.figures.sparsity[i]) if scene.figures.sparsity[i] == scene.figures.sparsity[i] else -1.0,
        scene.colours.colours[code],
        caption.width,
        i in scene.problems,
        scene.colours.values is not None and scene.colours.values[i] == scene.colours.values[i],
        caption.category == "shape",
        adapter,
        written.colour,
        bool(written.note),
        written.muted,
        ports,
    )
