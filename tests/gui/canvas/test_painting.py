"""The picture itself: tiles, pixel ratios, palettes, files. Offscreen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from espalier.app.canvas.camera import Area
from espalier.app.canvas.layout import HEAD
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.scene_painter import DETAIL_FROM
from espalier.app.canvas.sprites import MEMORY, Face, Sprites, paint_node
from espalier.app.canvas.view import GraphCanvas
from espalier.app.theme import DARK, LIGHT
from espalier.model.errors import FileError
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision, TensorMeta
from tests.gui.canvas.steps import LINEAR, draw_on, pixels, settle, with_precision

pytestmark = pytest.mark.gui


def test_high_dpi_tiles(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """On a screen of ratio 2 the tiles have twice the pixels and the picture is the same."""
    picture = QImage(1800, 1200, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(2.0)
    picture.fill(QColor("#F6F7F9"))
    for _ in range(60):
        draw_on(canvas, picture)
    tile = next(iter(canvas.tiles.done.values()))
    assert tile.width() == 512 and tile.devicePixelRatio() == 2.0
    canvas.bars.show(False)
    settle(qtbot, canvas)
    picture.setDevicePixelRatio(1.0)
    small = picture.scaled(900, 600, mode=Qt.TransformationMode.SmoothTransformation)
    fine, plain = (pixels(p) & 0xFF for p in (small, canvas.grab().toImage()))
    assert np.abs(fine.astype(int) - plain.astype(int)).mean() < 3


def test_pictures_of_nodes_take_a_bounded_memory(canvas: GraphCanvas) -> None:
    """However large they are, and none without a graph."""
    made, kept = Sprites(), list[int]()
    made.prepare(2.0, 2.0, LIGHT)
    for number in range(40):
        made.get(number, 1000, 100, lambda painter: None)
        kept.append(sum(4 * p.width() * p.height() for p in made._cache.values()))
    assert MEMORY / 2 < max(kept) < MEMORY * 1.2 and len(made._cache) < 40
    held = canvas.kit.sprites
    assert held._cache
    canvas.set_graph(None)
    assert not held._cache


def test_tiles_agree_with_one_painting(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """The tiled picture is what painting the whole view at once gives: no seams."""
    canvas.camera.scale, canvas.camera.x, canvas.camera.y = 1.0, 0.0, 0.0
    canvas.moved()
    settle(qtbot, canvas)
    canvas.bars.show(False)
    tiled = pixels(canvas.grab().toImage())
    whole = QImage(900, 600, QImage.Format.Format_RGB32)
    whole.fill(QColor(LIGHT.background))
    painter = QPainter(whole)
    assert canvas.scene
    canvas.kit.paint(painter, canvas.scene, (0, 0, 900, 600), 1.0, 1.0)
    painter.end()
    assert (tiled != pixels(whole)).mean() < 0.002


def test_palette_changes_every_colour(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Dark is dark, cards included."""
    canvas.set_palette(DARK)
    settle(qtbot, canvas)
    picture = pixels(canvas.grab().toImage())
    light = ((picture & 0xFF) > 200).mean()
    assert light < 0.1


def test_render_writes_a_picture(canvas: GraphCanvas, tmp_path: Path) -> None:
    """The whole graph as PNG, whatever is in view."""
    file = tmp_path / "graph.png"
    canvas.render(file, (640, 480))
    image = QImage(str(file))
    assert (image.width(), image.height()) == (640, 480) and len(np.unique(pixels(image))) > 20
    with pytest.raises(FileError):
        canvas.render(tmp_path / "no" / "x.png", (64, 48))


@pytest.mark.parametrize("scale", [0.3, 0.73, 1.0, 1.37])
def test_an_edit_paints_what_painting_all_anew_gives(canvas: GraphCanvas, qtbot: QtBot, scale: float) -> None:
    """Only the changed card is painted, at any zoom without a seam; far fewer pixels than all tiles have."""
    assert canvas.graph and canvas.scene
    canvas.reveal(LINEAR)
    x, y, w, h = canvas.scene.rect_of(canvas.scene.layout.tree.index[LINEAR]) or (0, 0, 0, 0)
    canvas.camera.scale = scale
    canvas.centre(x + w / 2 + 31, y + h / 2 - 17)
    settle(qtbot, canvas)
    painted: list[tuple[float, ...]] = []
    paint = canvas.kit.paint

    def watched(painter: QPainter, scene: Scene, area: Area, zoom: float, ratio: float) -> None:
        painted.append(area)
        paint(painter, scene, area, zoom, ratio)

    canvas.kit.paint = watched  # type: ignore[method-assign]
    edited = with_precision(canvas.graph, LINEAR)
    canvas.set_graph(edited, edited.delta(canvas.graph))
    settle(qtbot, canvas)
    assert painted
    if scale >= DETAIL_FROM:
        # The card, or the strip of a head that tells of it.
        assert all(a[3] <= HEAD + 16 or (a[2] <= w + 16 and a[3] <= h + 16) for a in painted)
    patched = pixels(canvas.grab().toImage())
    canvas.repaint_all()
    settle(qtbot, canvas)
    assert (patched == pixels(canvas.grab().toImage())).all()


def test_the_chip_of_a_cast_comes_and_goes_with_its_format(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """An edit paints chips as painting all anew would; hidden they leave nothing behind; the edge tells the cast."""
    assert canvas.graph and canvas.scene
    canvas.bars.show(False)
    source = next(iter(canvas.graph[LINEAR].inputs)).node
    floats = TensorMeta((2, 64), "float32")
    plain = canvas.graph.replace(replace(canvas.graph[source], ports={"data_out": floats}))
    canvas.set_graph(plain)
    canvas.reveal(LINEAR)
    canvas.camera.scale = 1.0
    canvas.moved()
    settle(qtbot, canvas)
    before = pixels(canvas.grab().toImage())
    cast = plain.replace(replace(plain[LINEAR], precision={"data_in": Precision(Integer(4, 2))}))
    canvas.set_graph(cast, cast.delta(plain))
    settle(qtbot, canvas)
    (chip,) = canvas.scene.casts_in(canvas.scene.area)
    assert canvas.scene.cast_on(chip.edge) == "fp32 → int 4/2"
    patched = pixels(canvas.grab().toImage())
    canvas.repaint_all()
    settle(qtbot, canvas)
    assert (patched == pixels(canvas.grab().toImage())).all()
    canvas.set_show_casts(False)
    settle(qtbot, canvas)
    hidden = pixels(canvas.grab().toImage())
    assert (hidden != patched).any()
    canvas.set_graph(plain, plain.delta(cast))
    canvas.set_show_casts(True)
    settle(qtbot, canvas)
    assert (pixels(canvas.grab().toImage()) == before).all()


@pytest.mark.parametrize("adapter", ["", "LoRA r8"])
def test_a_badge_leaves_the_name_of_a_narrow_node(canvas: GraphCanvas, adapter: str) -> None:
    """Where both do not fit beside each other, the badge goes below the name."""

    def name_row(badge: str, width: int = 104) -> np.ndarray:
        picture = QImage(width, 40, QImage.Format.Format_RGB32)
        picture.fill(QColor(LIGHT.node))
        painter = QPainter(picture)
        paint_node(
            painter, Face("BatchNorm", "BatchNorm 64", badge, -1.0, "#000000", width, adapter=adapter), LIGHT, 1.0
        )
        painter.end()
        return pixels(picture)[4:21]

    assert (name_row("int8 channel") == name_row("")).all()
    assert (name_row("int 8/4", 168) != name_row("", 168)).any(), "with room it stands beside it"


@pytest.mark.parametrize(("name", "badge", "sparsity"), [
    ("dense", "int 8/4", 0.3), ("BatchNorm", "scaled int 8 channel", -1.0), ("dense", "int 8/4", -1.0),
    ("fc", "int 8/4", 0.3)])  # fmt: skip
def test_the_badge_of_an_adapter_stays_inside_of_a_narrow_node(
    qapp: object, name: str, badge: str, sparsity: float
) -> None:
    """Below a name where the format's badge has gone too, there is no room for it."""

    def picture(adapter: str) -> np.ndarray:
        made = QImage(144, 40, QImage.Format.Format_RGB32)
        made.fill(QColor(LIGHT.node))
        painter = QPainter(made)
        painter.translate(20, 0)
        paint_node(painter, Face(name, "Linear", badge, sparsity, "#000000", 104, adapter=adapter), LIGHT, 1.0)
        painter.end()
        return pixels(made)

    changed = picture("LoRA r16") != picture("")
    assert not changed[:, :27].any(), "not over the border"
    assert changed.any() == (name == "fc" or (name == "dense" and sparsity < 0)), "drawn where it has the room"
