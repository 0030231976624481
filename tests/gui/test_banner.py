"""Messages float over a corner of the window: nothing moves, at any size, and the lowest line stays free."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication, QPushButton

from espalier.app.errors import LOWEST, MARGIN
from espalier.app.shell.window import Window
from espalier.model.errors import PassError
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui
LONG = "The data has classes up to 1; the model tells 30522 apart. " * 4


@pytest.mark.parametrize("size", [(1440, 900), (1280, 800), (700, 500)])
def test_a_message_moves_nothing(window: Window, runner: list[FakeRunner], size: tuple[int, int]) -> None:
    open_small(window, runner)
    window.resize(*size)
    QApplication.processEvents()
    before = window.pages.geometry(), window.canvas.size()
    window.session.problem.emit(PassError(LONG, "Give other data, or another model.", "fc1"))
    QApplication.processEvents()
    assert (window.pages.geometry(), window.canvas.size()) == before
    banner, centre = window.banner, window.centralWidget()
    assert banner.isVisible() and centre.rect().contains(banner.geometry())
    assert centre.height() - banner.geometry().bottom() > LOWEST
    for part in (banner._message, banner._hint, *banner.findChildren(QPushButton)):
        if part.isVisible():
            assert banner.rect().contains(part.geometry()), part.text()
            assert part.height() >= (part.heightForWidth(part.width()) if part is banner._message else 10)


def test_a_message_stays_in_its_corner(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner)
    window.banner.show_message("One line.")
    short = window.banner.height()
    window.banner.show_message(LONG)
    assert window.banner.height() > short
    window.resize(900, 620)
    QApplication.processEvents()
    assert window.banner.geometry().right() == window.centralWidget().width() - MARGIN - 1
    window.banner.dismiss()
    assert not window.banner.isVisible()
