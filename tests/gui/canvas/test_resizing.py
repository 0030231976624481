"""What stays in place when the canvas gets another size."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from espalier.app.shell.window import Window

pytestmark = pytest.mark.gui


def test_the_middle_stays_where_the_window_is_resized(opened: Window) -> None:
    canvas = opened.canvas
    canvas.look_at(1.5, 40.0, 60.0)
    canvas.camera.pan(7.0, 3.0)
    canvas.moved()  # as a drag does: from here on nothing is held
    scale, x, y = canvas.look()
    for size in ((1400, 900), (1000, 700)):
        before = canvas.size()
        opened.resize(*size)
        QApplication.processEvents()
        assert canvas.size() != before
        assert canvas.look() == pytest.approx((scale, x, y))


def test_the_corner_stays_where_a_panel_takes_room(opened: Window) -> None:
    canvas = opened.canvas
    canvas.look_at(1.5, 40.0, 60.0)
    canvas.moved()
    opened.resize(1300, 850)
    QApplication.processEvents()
    before, corner = canvas.size(), (canvas.camera.x, canvas.camera.y)
    for name in ("outline", "inspector"):
        opened.docks.docks[name].close()
    QApplication.processEvents()
    assert canvas.size() != before and (canvas.camera.x, canvas.camera.y) == pytest.approx(corner)
