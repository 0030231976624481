"""The rows of ports on a card at near zoom: which, with which format, and when they have room. Offscreen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.canvas.node_metrics import port_formats
from espalier.app.canvas.port_rows import GROWTH, PORTS_FROM, SIDE, grid
from espalier.app.canvas.scene_painter import face_of
from espalier.app.canvas.view import GraphCanvas
from espalier.app.figures.captions import NODE_HEIGHT
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Node
from espalier.model.graph.meta import Precision, TensorMeta
from tests.gui.canvas.steps import LINEAR, pixels, settle, with_precision

pytestmark = pytest.mark.gui


def test_each_port_has_its_own_format() -> None:
    """Inputs first, then weight, bias and result: the chosen format, else the float type of the tensor."""
    half, single = TensorMeta((8, 8), "float16"), TensorMeta((8,), "float32")
    ports = {"data_in": half, "weight": half, "bias": single, "data_out": half}
    node = Node("a", "linear", "call_module", "a", ports=ports)
    assert port_formats(node) == (("in", "fp16"), ("weight", "fp16"), ("bias", "fp32"), ("out", "fp16"))
    chosen = replace(node, precision={"weight": Precision(Integer(4, 2)), "data_out": Precision(Integer(8, 4))})
    assert dict(port_formats(chosen)) == {"in": "fp16", "weight": Integer(4, 2).label, "bias": "fp32",
                                          "out": Integer(8, 4).label}  # fmt: skip
    assert port_formats(Node("v", "view", "call_function", "aten.view.default", ports={"data_out": half})) == ()


@pytest.mark.parametrize("width", [104.0, 160.0, 272.0])
@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_rows_fit_the_card(width: float, count: int) -> None:
    """All ports have a cell, cells lie in the card, and a larger card needs no more columns."""
    before = 99
    for scale in (PORTS_FROM, 2.0, 3.0, 4.0):
        rows, columns = grid(count, width, scale)
        if not rows:
            continue
        assert rows * columns >= count > rows * (columns - 1)
        assert rows * 13.0 * GROWTH / scale <= NODE_HEIGHT and columns * 80.0 * GROWTH / scale <= width - SIDE / scale
        assert columns <= before
        before = columns
    assert grid(count, width, 4.0)[0] and grid(0, width, 4.0) == (0, 0)


def test_a_near_card_shows_what_one_badge_cannot(canvas: GraphCanvas, qtbot: QtBot) -> None:
    """Another format of the result leaves the badge at 1 but changes the rows at 2."""
    assert canvas.graph and canvas.scene
    canvas.set_graph(with_precision(canvas.graph, LINEAR))
    number = canvas.scene.layout.tree.index[LINEAR]
    one = canvas.graph
    node = one[LINEAR]
    other = one.replace(replace(node, precision={**node.precision, "data_out": Precision(Integer(8, 4))}))
    pictures = {}
    for scale in (1.0, 2.0):
        for name, graph in (("one", one), ("other", other)):
            canvas.set_graph(graph)
            canvas.camera.scale = scale
            canvas.bring(number)
            x, y, w, h = canvas.scene.rect_of(number) or (0.0, 0.0, 1.0, 1.0)
            canvas.centre(x + w / 2, y + h / 2)
            settle(qtbot, canvas)
            left, top = (round(v) + 3 for v in canvas.camera.to_screen(x, y))
            picture = pixels(canvas.grab().toImage())
            pictures[scale, name] = picture[top : top + round(h * scale) - 6, left : left + round(w * scale) - 6]
    assert (pictures[1.0, "one"] == pictures[1.0, "other"]).all()
    assert (pictures[2.0, "one"] != pictures[2.0, "other"]).any()
    assert face_of(canvas.scene, number).ports == () and len(face_of(canvas.scene, number, True).ports) >= 3
