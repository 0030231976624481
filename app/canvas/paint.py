"""Paints a piece of the scene in batches, with as much detail as the zoom can show."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath

from app.canvas.camera import Area
from app.canvas.captions import NODE_HEIGHT
from app.canvas.figures import counts
from app.canvas.layout import CLOSED_HEIGHT, HEAD
from app.canvas.primitives import draw_lines, draw_rects, font, pen, route_path
from app.canvas.scene import Found, Scene
from app.canvas.sprites import DETAILS_FROM, Face, Sprites, write
from app.theme import EDGE_WIDTH, GROUP_RADIUS, NODE_LABEL, SECONDARY, Palette

DETAIL_FROM = 0.35  # below: plain rectangles and straight lines
CURVES_FROM = 0.16
MOST_EDGES, MOST_NODES = 1500, 4000  # per piece, when far away: more cannot be told apart


class Painter:
    """Paints scenes; holds the sprites and the edge paths that repeated painting needs."""

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self.sprites = Sprites()
        self._paths: dict[int, QPainterPath] = {}
        self._scene: Scene | None = None

    def forget(self) -> None:
        """A new layout or new figures: what was kept no longer holds."""
        self._paths.clear()

    def paint(self, painter: QPainter, scene: Scene, area: Area, scale: float, ratio: float) -> None:
        """Paint what of `scene` lies in `area`; `painter` already maps canvas units to pixels."""
        if self._scene is None or scene.layout is not self._scene.layout:
            self._paths.clear()
        self._scene = scene
        self.sprites.prepare(scale, ratio, self.palette)
        near = scale >= DETAIL_FROM
        x, y, w, h = area
        reach = (x - 8, y - 8, w + 16, h + 16)
        groups = scene.groups_in(reach)
        edges = scene.edges_in(reach)
        nodes = scene.nodes_in(reach)
        self._frames(painter, scene, groups, scale)
        self._edges(painter, scene, edges, scale)
        if near:
            self._closed(painter, scene, groups)
            self._nodes(painter, scene, nodes)
            self._stubs(painter, scene, reach, scale)
            if scale >= DETAILS_FROM:
                self._shapes(painter, scene, edges)
        else:
            self._far_nodes(painter, scene, nodes, scale)
            self._far_closed(painter, scene, groups)
        self._titles(painter, scene, groups, scale)

    def skeleton(self, painter: QPainter, scene: Scene, area: Area, scale: float) -> None:
        """The least that holds the place of a picture not yet painted: frames large enough to see."""
        groups = scene.groups_in(area)
        rects = scene.layout.group_rects[groups]
        groups = groups[np.minimum(rects[:, 2], rects[:, 3]) * scale >= 6]
        painter.setPen(pen(self.palette.line))
        for opened, colour in ((True, self.palette.group), (False, self.palette.panel)):
            painter.setBrush(QColor(colour))
            draw_rects(painter, scene.layout.group_rects[groups[scene.layout.group_open[groups] == opened]])

    def _frames(self, painter: QPainter, scene: Scene, groups: Found, scale: float) -> None:
        """The grounds of open groups, outer ones first."""
        layout = scene.layout
        opened = groups[layout.group_open[groups]]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, scale >= CURVES_FROM)
        for place in opened.tolist():
            depth = layout.tree.groups[layout.groups[place]].depth
            painter.setPen(pen(self.palette.line))
            painter.setBrush(QColor(self.palette.group if depth % 2 else self.palette.background))
            x, y, w, h = layout.group_rects[place].tolist()
            if min(w, h) * scale < 3:
                continue
            if scale < CURVES_FROM:
                painter.drawRect(QRectF(x, y, w, h))
            else:
                painter.drawRoundedRect(QRectF(x, y, w, h), GROUP_RADIUS, GROUP_RADIUS)

    def _edges(self, painter: QPainter, scene: Scene, edges: Found, scale: float) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if scale < CURVES_FROM:
            self._lines(painter, scene, edges)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(pen(self.palette.edge, EDGE_WIDTH if scale >= DETAIL_FROM else 1.0))
        for path in self.paths(scene, edges.tolist()):
            painter.drawPath(path)

    def paths(self, scene: Scene, edges: Iterable[int]) -> Iterable[QPainterPath]:
        """The courses of edges, kept for the next time."""
        points, starts = scene.layout.points, scene.layout.starts
        for k in edges:
            path = self._paths.get(k)
            if path is None:
                path = self._paths[k] = route_path(points[starts[k] : starts[k + 1]], scene.layout.horizontal)
            yield path

    def _lines(self, painter: QPainter, scene: Scene, edges: Found) -> None:
        if len(edges) > MOST_EDGES:
            edges = edges[:: len(edges) // MOST_EDGES + 1]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(pen(self.palette.edge))
        starts = scene.layout.starts
        counts = starts[edges + 1] - starts[edges] - 1
        first = starts[edges] - edges
        rows = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        draw_lines(painter, scene.segments[rows])

    def _far_nodes(self, painter: QPainter, scene: Scene, nodes: Found, scale: float) -> None:
        """Plain rectangles, one call per colour."""
        if len(nodes) > MOST_NODES:
            nodes = nodes[:: len(nodes) // MOST_NODES + 1]
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

    def _far_closed(self, painter: QPainter, scene: Scene, groups: Found) -> None:
        layout = scene.layout
        closed = groups[~layout.group_open[groups]]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(pen(self.palette.edge))
        painter.setBrush(QColor(self.palette.panel))
        draw_rects(painter, layout.group_rects[closed])

    def _nodes(self, painter: QPainter, scene: Scene, nodes: Found) -> None:
        transform = painter.transform()
        painter.save()
        painter.resetTransform()
        rects = scene.layout.node_rects[nodes]
        offset = 2 * transform.m11()
        xs = np.rint(rects[:, 0] * transform.m11() + transform.dx() - offset).tolist()
        ys = np.rint(rects[:, 1] * transform.m22() + transform.dy() - offset).tolist()
        ids = scene.layout.nodes[nodes].tolist()
        ratio = painter.device().devicePixelRatioF()
        for i, x, y in zip(ids, xs, ys, strict=True):
            painter.drawPixmap(QPointF(x / ratio, y / ratio), self.sprites.node(face_of(scene, i)))
        painter.restore()

    def _closed(self, painter: QPainter, scene: Scene, groups: Found) -> None:
        layout = scene.layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for place in groups[~layout.group_open[groups]].tolist():
            self._closed_box(painter, scene, place)

    def _closed_box(self, painter: QPainter, scene: Scene, place: int) -> None:
        layout, palette = scene.layout, self.palette
        number = int(layout.groups[place])
        group = layout.tree.groups[number]
        figures = scene.figures.group(layout.tree, number)
        x, y, w, _ = layout.group_rects[place].tolist()
        painter.setPen(pen(palette.line))
        painter.setBrush(QColor(palette.panel))
        painter.drawRoundedRect(QRectF(x, y, w, CLOSED_HEIGHT), GROUP_RADIUS, GROUP_RADIUS)
        code = scene.colours.code_of(figures.rows)
        if code is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(scene.colours.colours[code]))
            painter.drawRoundedRect(QRectF(x + 3, y + 8, 4, CLOSED_HEIGHT - 16), 2, 2)
        small = self.sprites.scale < DETAILS_FROM
        bars = 0.0 if small or not figures.bars else 7.0 * len(figures.bars) + 12
        triangle(painter, x + 13, y + (CLOSED_HEIGHT / 2 if small else 15), False, palette)
        size = min(10 / self.sprites.scale, 20) if small else NODE_LABEL
        title = QRectF(x + 24, y + (0 if small else 5), w - 30 - bars, CLOSED_HEIGHT if small else 19)
        write(painter, group.label, font(size, True), palette.text, title)
        if small:
            return
        below = QRectF(x + 24, y + 23, w - 30 - bars, 16)
        metrics = QFontMetricsF(font(SECONDARY))
        texts = counts(group.size, figures.parameters, group.twins)
        text = next((t for t in texts if metrics.horizontalAdvance(t) <= below.width()), texts[-1])
        write(painter, text, font(SECONDARY), palette.muted, below)
        self._bars(painter, figures.bars, x + w - 10, y + CLOSED_HEIGHT / 2)

    def _bars(self, painter: QPainter, bars: tuple[float, ...], right: float, middle: float) -> None:
        """One small bar per few layers: its height is the bits of their weights, 32 being full."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.palette.bar))
        for k, bits in enumerate(reversed(bars)):
            height = max(20 * min(bits, 32) / 32, 2.0)
            painter.drawRect(QRectF(right - 7 * k - 5, middle + 10 - height, 5, height))

    def _stubs(self, painter: QPainter, scene: Scene, area: Area, scale: float) -> None:
        palette, layout = self.palette, scene.layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for place in scene.stubs_in(area).tolist():
            x, y, w, h = layout.stub_rects[place].tolist()
            painter.setPen(pen(palette.line))
            painter.setBrush(QColor(palette.chip))
            painter.drawRoundedRect(QRectF(x, y, w, h), h / 2, h / 2)
            if scale >= NAMES_STUB:
                stub = layout.tree.stubs[layout.stubs[place]]
                mark = "→ " if stub.uses else "↳ "
                write(painter, mark + stub.label, font(SECONDARY), palette.muted, QRectF(x + 8, y, w - 14, h))

    def _shapes(self, painter: QPainter, scene: Scene, edges: Found) -> None:
        """The shape beside an edge that has the room."""
        layout = scene.layout
        face = font(SECONDARY)
        metrics = QFontMetricsF(face)
        painter.setFont(face)
        painter.setPen(QColor(self.palette.muted))
        for k in edges[layout.labels[edges, 2] > 40].tolist():
            shape = scene.shape(k)
            x, y, room = layout.labels[k].tolist()
            width = metrics.horizontalAdvance(shape)
            if shape and width + 14 <= room:
                painter.drawText(QRectF(x + 6, y - 8, width + 2, 16), Qt.AlignmentFlag.AlignVCenter, shape)

    def _titles(self, painter: QPainter, scene: Scene, groups: Found, scale: float) -> None:
        """The heads of open groups."""
        layout = scene.layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        opened = groups[layout.group_open[groups]].tolist()
        if scale < DETAIL_FROM:
            self._far_titles(painter, scene, opened, scale)
            return
        size = NODE_LABEL if scale >= DETAILS_FROM else min(10 / scale, 22)
        for place in opened:
            x, y = layout.group_rects[place, :2].tolist()
            triangle(painter, x + 15, y + HEAD / 2, True, self.palette)
            self._title(painter, scene, place, size, scale >= DETAILS_FROM)

    def _far_titles(self, painter: QPainter, scene: Scene, opened: list[int], scale: float) -> None:
        """Names larger than life, as on a map, where a group is large enough and no outer name is in the way."""
        layout = scene.layout
        face = font(11 / scale, True)
        written: dict[int, tuple[float, float]] = {}
        for place in opened:
            x, y, w, h = layout.group_rects[place].tolist()
            number = int(layout.groups[place])
            around = layout.tree.ancestors(number)[:-1]
            near = any(g in written and (y - written[g][1]) * scale < 17 for g in around)
            if w * scale < 64 or h * scale < 54 or near:
                continue
            written[number] = (x, y)
            label = layout.tree.groups[number].label
            width = min(QFontMetricsF(face).horizontalAdvance(label), w - 12 / scale)
            box = QRectF(x + 5 / scale, y + 3 / scale, width + 4 / scale, 15 / scale)
            ground = QColor(self.palette.panel)
            ground.setAlpha(215)
            painter.fillRect(box.adjusted(-2 / scale, 0, 0, 0), ground)
            write(painter, label, face, self.palette.text, box)

    def _title(self, painter: QPainter, scene: Scene, place: int, size: float, full: bool) -> None:
        """Name to the left and counts to the right of the wires that cross the head, as much as fits."""
        layout, palette = scene.layout, self.palette
        x, y, w, _ = layout.group_rects[place].tolist()
        first, last = layout.group_doors[place].tolist()
        group = layout.tree.groups[int(layout.groups[place])]
        face, box = font(size, True), QRectF(x + 26, y, w - 38, HEAD)
        width = min(QFontMetricsF(face).horizontalAdvance(group.label), box.width())
        if first < box.x() + width + 4:
            ground = QColor(palette.group if group.depth % 2 else palette.background)
            painter.fillRect(QRectF(box.x(), y + 8, width + 3, HEAD - 16), ground)
        write(painter, group.label, face, palette.text, box)
        if not full:
            return
        figures = scene.figures.group(layout.tree, int(layout.groups[place]))
        free = [(box.x() + width + 12, box.right())]
        if first == first:
            free = [(max(last + 8, free[0][0]), box.right()), (free[0][0], first - 8)]
            if len(group.ins) == 2:
                free.insert(1, (max(first + 8, box.x() + width + 12), last - 8))
        face = font(SECONDARY)
        painter.setFont(face)
        painter.setPen(QColor(palette.muted))
        for text in counts(group.size, figures.parameters, group.twins):
            need = QFontMetricsF(face).horizontalAdvance(text)
            spot = next(((a, b) for a, b in free if b - a >= need), None)
            if spot:
                here = QRectF(spot[1] - need - 1, y, need + 1, HEAD)
                painter.drawText(here, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
                return


NAMES_STUB = 0.5


def triangle(painter: QPainter, x: float, y: float, opened: bool, palette: Palette) -> None:
    """The mark that opens and closes a group."""
    path = QPainterPath()
    points = ((-4, -2.5), (4, -2.5), (0, 3)) if opened else ((-2.5, -4), (-2.5, 4), (3, 0))
    path.moveTo(x + points[0][0], y + points[0][1])
    for dx, dy in points[1:]:
        path.lineTo(x + dx, y + dy)
    path.closeSubpath()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.muted))
    painter.drawPath(path)


def face_of(scene: Scene, i: int) -> Face:
    """What node i looks like."""
    caption = scene.layout.tree.captions[i]
    assert caption is not None
    code = int(scene.colours.codes[i])
    return Face(
        caption.name,
        caption.detail,
        scene.figures.badges[i],
        float(scene.figures.sparsity[i]) if scene.figures.sparsity[i] == scene.figures.sparsity[i] else -1.0,
        scene.colours.colours[code],
        caption.width,
        i in scene.problems,
        scene.colours.values is not None and scene.colours.values[i] == scene.colours.values[i],
        caption.category == "shape",
    )
