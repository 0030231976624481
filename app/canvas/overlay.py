"""Marks painted above the tiles at every frame: selection, hover, rubber band and messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from espalier.app.canvas.camera import Area, Camera
from espalier.app.canvas.fold_card import slots
from espalier.app.canvas.fold_metrics import chain_rows
from espalier.app.canvas.layout import STUB_HEIGHT
from espalier.app.canvas.moving import Moving, paint_moving
from espalier.app.canvas.primitives import draw_rects, font, pen
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.scene_painter import DETAIL_FROM, ScenePainter
from espalier.app.canvas.wires import Wire, paint_handle, paint_wire
from espalier.app.theme import BODY, GROUP_RADIUS, RADIUS, SECONDARY, SELECTION_WIDTH, SPARSITY, Palette
from espalier.app.translation import tr, translated

MAX_OUTLINES, MAX_ROUTES, MAX_FAR = 400, 160, 1500
CHANGED_GAP = 3.0  # canvas units between a node and the outline that marks it as changed
MIN_OUTLINE = 4.0  # pixels of a selected node at small zoom

EMPTY = translated(("No model open", "Open a Hugging Face folder, a Python file or a project, or drop one here."))
BUSY = tr("Laying out the graph …")


@dataclass(slots=True)
class Marks:
    """The present marks, by index in the layout."""

    nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    groups: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # what hides selected nodes
    bars: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))  # of folds, where selected nodes are hidden
    stubs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    changed_nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    changed_groups: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    changed_bars: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    routes: list[int] = field(default_factory=list)
    hover: Area | None = None
    hover_edge: int | None = None
    hover_stubs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    spot: QPointF = field(default_factory=QPointF)
    band: QRectF | None = None
    handle: tuple[float, float] | None = None  # where a wire can begin, in canvas units
    wire: Wire | None = None
    moving: Moving | None = None  # boxes that are being dragged
    frame: Area | None = None  # the frame that was clicked


def numbers_of(scene: Scene, ids: Iterable[str]) -> np.ndarray:
    """The numbers of the nodes that the scene has."""
    index = scene.layout.tree.index
    return np.array([i for name in ids if (i := index.get(name)) is not None], np.int64)


def mark_selection(scene: Scene, chosen_numbers: np.ndarray) -> Marks:
    """Outlines of selected nodes and of the collapsed groups that hide some; routes of at most three nodes."""
    marks = Marks()
    if not len(chosen_numbers):
        return marks
    chosen = np.zeros(len(scene.cover), bool)
    chosen[chosen_numbers] = True
    marks.nodes = np.flatnonzero(chosen[scene.layout.nodes])
    hiding = scene.cover[chosen]
    marks.groups = np.unique(hiding[hiding >= 0])
    marks.bars = _bars(scene, chosen, marks.groups - len(scene.layout.groups))
    if len(chosen_numbers) <= 3:
        numbers = chosen_numbers.tolist()
        marks.stubs = scene.ends_of(numbers)
        leaving = np.isin(scene.layout.tensors[:, 0], numbers)
        ends = scene.layout.points[scene.layout.starts[1:] - 1]
        arriving = np.zeros(len(ends), bool)
        along, across = (0, 1) if scene.layout.horizontal else (1, 0)
        for i in numbers:
            if i in scene.place_of:
                rect = scene.layout.node_rects[scene.place_of[i]]
                beside = (ends[:, across] >= rect[across]) & (ends[:, across] <= rect[across] + rect[across + 2])
                arriving |= beside & (np.abs(ends[:, along] - rect[along]) < 0.5)
        marks.routes = np.flatnonzero(leaving | arriving)[:MAX_ROUTES].tolist()
    return marks


def _bars(scene: Scene, chosen: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The bars of the groups in these folds that hide chosen nodes; none if it is every one of a fold."""
    found: list[np.ndarray] = []
    for place in folds[folds >= 0].tolist():
        fold = scene.layout.folds[place]
        members = fold.members
        hit = chosen[chain_rows(scene.layout.tree, fold.chain)[fold.first : fold.last]].any(axis=1)
        if not hit.all():
            corner = np.append(scene.layout.fold_rects[place, :2], (0.0, 0.0))
            found.append(slots(len(members))[hit] + corner + (-4.0, -4.0, 8.0, 20.0))
    return np.concatenate(found) if found else np.zeros((0, 4))


def mark_changed(scene: Scene, marks: Marks, numbers: np.ndarray) -> None:
    """Outline nodes that differ from another graph, and the collapsed groups that hide some."""
    chosen = np.zeros(len(scene.cover), bool)
    chosen[numbers] = True
    hiding = scene.cover[chosen]
    marks.changed_nodes = np.flatnonzero(chosen[scene.layout.nodes])
    marks.changed_groups = np.unique(hiding[hiding >= 0])
    marks.changed_bars = _bars(scene, chosen, marks.changed_groups - len(scene.layout.groups))


def paint_marks(painter: QPainter, scene: Scene, kit: ScenePainter, camera: Camera, marks: Marks, view: QRectF) -> None:
    """Paint the marks."""
    palette = kit.palette
    painter.save()
    painter.scale(camera.scale, camera.scale)
    painter.translate(-camera.x, -camera.y)
    near = camera.scale >= DETAIL_FROM
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, near)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    moving = marks.moving
    if moving is not None:
        paint_moving(painter, scene, kit, moving, camera.scale)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, near)
        painter.setBrush(Qt.BrushStyle.NoBrush)
    routes = marks.routes if moving is None else [r for r in marks.routes if r not in moving.edges]
    if len(routes):
        painter.setPen(pen(palette.accent, 1.6))
        kit.draw_edges(painter, scene, np.array(routes, np.int64), camera.scale)
    area = camera.area(view.width(), view.height())
    painter.setPen(pen(SPARSITY, SELECTION_WIDTH))  # the orange of what differs, as in pictures of a difference
    _outlines(painter, _grown(scene.layout.node_rects[marks.changed_nodes]), area, near)
    _outlines(painter, marks.changed_bars, area, near, 3)
    _outlines(painter, _grown(scene.hiding_rects[marks.changed_groups]), area, near)
    painter.setPen(pen(palette.accent, SELECTION_WIDTH))
    nodes, groups, bars = selected_rects(scene, marks)
    _outlines(painter, nodes, area, near)
    _outlines(painter, groups, area, near)
    _outlines(painter, bars, area, near, 3)
    _outlines(painter, scene.layout.stub_rects[marks.stubs], area, near, STUB_HEIGHT / 2)
    painter.setPen(pen(palette.accent, 1.4))
    _outlines(painter, scene.layout.stub_rects[marks.hover_stubs], area, near, STUB_HEIGHT / 2)
    if marks.hover and near:
        painter.setPen(pen(palette.accent, 1.0))
        painter.drawRoundedRect(QRectF(*marks.hover), RADIUS, RADIUS)
    if marks.hover_edge is not None:
        painter.setPen(pen(palette.accent, 1.8))
        kit.draw_edges(painter, scene, np.array([marks.hover_edge], np.int64), camera.scale)
    if marks.frame is not None:
        painter.setPen(pen(palette.accent, SELECTION_WIDTH))
        painter.drawRoundedRect(QRectF(*marks.frame), GROUP_RADIUS, GROUP_RADIUS)
    if marks.wire is not None:
        paint_wire(painter, scene, marks.wire, palette)
    elif marks.handle is not None:
        paint_handle(painter, marks.handle, palette)
    painter.restore()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    if marks.hover_edge is not None:
        _note(painter, _edge_text(scene, marks.hover_edge), marks.spot, view, palette)
    if marks.band is not None:
        ground = QColor(palette.accent)
        ground.setAlpha(28)
        painter.setPen(pen(palette.accent))
        painter.setBrush(ground)
        painter.drawRect(marks.band)


def selected_rects(scene: Scene, marks: Marks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rectangles around selected nodes, the boxes that hide some, and their bars, where they are dragged to."""
    rects = scene.layout.node_rects[marks.nodes], scene.hiding_rects[marks.groups], marks.bars
    moving = marks.moving
    if moving is None:
        return rects
    folds = moving.boxes["fold"] + len(scene.layout.groups)
    hiding = np.concatenate([moving.boxes["group"], folds])
    cards, bars = scene.hiding_rects[folds], marks.bars
    inside = np.zeros(len(bars), bool)
    for x, y, w, h in cards.tolist():
        inside |= (bars[:, 0] >= x) & (bars[:, 0] < x + w) & (bars[:, 1] >= y) & (bars[:, 1] < y + h)
    moved = np.isin(marks.nodes, moving.boxes["node"]), np.isin(marks.groups, hiding), inside
    step = np.array([*moving.shift, 0.0, 0.0])
    nodes, groups, bars = (r + m[:, None] * step for r, m in zip(rects, moved, strict=True))
    return nodes, groups, bars


def _grown(rects: np.ndarray) -> np.ndarray:
    """Rectangles around rectangles, so that a selected node shows both outlines."""
    return rects + np.array([-CHANGED_GAP, -CHANGED_GAP, 2 * CHANGED_GAP, 2 * CHANGED_GAP])


def _edge_text(scene: Scene, edge: int) -> str:
    """The shape of the tensor of an edge, its conversion, and lines on what devices send."""
    first = " · ".join(filter(None, (scene.shape(edge), scene.cast_on(edge))))
    return "\n".join(filter(None, (first, scene.transfers.told_on(edge) if scene.transfers else "")))


def _outlines(painter: QPainter, rects: np.ndarray, area: Area, near: bool, radius: float = RADIUS) -> None:
    if not len(rects):
        return
    x, y, w, h = area
    seen = (
        (rects[:, 0] <= x + w)
        & (rects[:, 0] + rects[:, 2] >= x)
        & (rects[:, 1] <= y + h)
        & (rects[:, 1] + rects[:, 3] >= y)
    )
    rects = rects[seen]
    if near and len(rects) <= MAX_OUTLINES:
        for row in rects.tolist():
            painter.drawRoundedRect(QRectF(*row).adjusted(-0.5, -0.5, 0.5, 0.5), radius, radius)
        return
    if len(rects) > MAX_OUTLINES:
        painter.setPen(pen(painter.pen().color().name()))
    rects = rects[:: len(rects) // MAX_FAR + 1].copy()
    rects[:, 2:] = np.maximum(rects[:, 2:], MIN_OUTLINE / painter.transform().m11())
    draw_rects(painter, rects)


def _note(painter: QPainter, text: str, spot: QPointF, view: QRectF, palette: Palette) -> None:
    """Paint a label of some lines beside the pointer, within the view."""
    if not text:
        return
    face = font(SECONDARY + 0.5)
    lines, metrics = text.split("\n"), QFontMetricsF(face)
    width, height = max(map(metrics.horizontalAdvance, lines)) + 14, 4 + 15 * len(lines)
    left = max(min(spot.x() + 12, view.width() - width - 4), 4.0)
    box = QRectF(left, max(spot.y() - 5 - height, 4.0), width, height)
    painter.setPen(pen(palette.line))
    painter.setBrush(QColor(palette.panel))
    painter.drawRoundedRect(box, 5, 5)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    for k, line in enumerate(lines):
        row = QRectF(box.x() + 7, box.y() + 2 + 15 * k, width - 14, 15)
        painter.drawText(row, Qt.AlignmentFlag.AlignVCenter, line)


def paint_message(painter: QPainter, view: QRectF, title: str, text: str, palette: Palette) -> None:
    """Paint a message in the middle of the view."""
    middle = view.center().y()
    flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap
    painter.setFont(font(BODY + 3, True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QRectF(view.x() + 16, middle - 34, view.width() - 32, 26), flags, title)
    painter.setFont(font(BODY))
    painter.setPen(QColor(palette.muted))
    painter.drawText(QRectF(view.x() + 16, middle - 4, view.width() - 32, 40), flags, text)
