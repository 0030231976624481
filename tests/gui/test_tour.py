"""The tour: it points at real parts, never blocks, and ends at any step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, QSettings, Qt
from PySide6.QtTest import QTest

from espalier.app.settings import Settings
from espalier.app.shell.application import _start
from espalier.app.shell.tour import STEPS, Bubble
from espalier.app.shell.window import Window
from espalier.passes.jobs.kinds import OpenJob, OpenResult
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


def bubble_of(window: Window) -> Bubble:
    bubble = window.services.tour.bubble
    assert bubble is not None
    return bubble


@pytest.mark.parametrize("size", [(1600, 1000), (1280, 800), (1000, 640)])
def test_each_step_frames_a_visible_part_and_stays_in_the_window(opened: Window, size: tuple[int, int]) -> None:
    opened.resize(*size)
    opened.actions_table.run("tour")
    tour = opened.services.tour
    for i, step in enumerate(STEPS):
        bubble = bubble_of(opened)
        assert bubble.title.text() == step.title and bubble.count.text() == f"{i + 1} of 5"
        assert opened.rect().contains(bubble.geometry())
        part = tour._visible_part()
        assert part.isVisible() and tour.frame is not None
        assert opened.rect().contains(tour.frame.geometry()) and tour.frame.width() > 50
        if step.part != "graph":  # the text lies beside what it is about
            assert not bubble.geometry().intersects(tour.frame.geometry())
        bubble.next.click()
    assert tour.bubble is None and tour.index == -1


def test_a_floating_panel_is_framed_where_it_lies_over_the_window(opened: Window, qtlog: Any) -> None:
    dock = opened.docks.docks["inspector"]
    dock.setFloating(True)
    dock.setGeometry(QRect(opened.mapToGlobal(QPoint(300, 200)), dock.size()))
    opened.actions_table.run("tour")
    bubble_of(opened).next.click()
    tour = opened.services.tour
    assert tour.frame is not None and tour.frame.geometry().topLeft().x() >= 300
    assert opened.rect().contains(tour.frame.geometry()) and opened.rect().contains(bubble_of(opened).geometry())
    assert not [r.message for r in qtlog.records if "mapTo" in r.message]
    dock.setFloating(False)
    tour.end()


def test_the_window_stays_usable_and_escape_ends_it(opened: Window) -> None:
    opened.actions_table.run("tour")
    opened.session.select(["fc1"])
    assert opened.canvas.selection() == ("fc1",)
    bubble_of(opened).next.click()
    bubble_of(opened).back.click()
    assert bubble_of(opened).count.text() == "1 of 5" and not bubble_of(opened).back.isEnabled()
    before = bubble_of(opened).geometry()
    opened.resize(opened.width() + 200, opened.height())
    assert opened.rect().contains(bubble_of(opened).geometry()) and QRect(before).isValid()
    QTest.keyClick(bubble_of(opened).next, Qt.Key.Key_Escape)
    assert opened.services.tour.bubble is None


def test_return_goes_on_and_ends_it(opened: Window) -> None:
    opened.actions_table.run("tour")
    for number in range(2, len(STEPS) + 1):
        QTest.keyClick(bubble_of(opened).next, Qt.Key.Key_Return)
        assert bubble_of(opened).count.text() == f"{number} of {len(STEPS)}"
    QTest.keyClick(bubble_of(opened).next, Qt.Key.Key_Return)
    assert opened.services.tour.bubble is None


def test_without_a_model_it_opens_a_demo_first(window: Window, runner: list[FakeRunner]) -> None:
    window.actions_table.run("tour")
    assert window.services.tour.bubble is None
    job = runner[-1].waiting[0].job
    assert isinstance(job, OpenJob) and job.spec == "demo:digits"
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    assert bubble_of(window).title.text() == STEPS[0].title
    window.session.close()
    assert window.services.tour.bubble is None


def test_it_is_offered_once(window: Window, tmp_path: Path) -> None:
    window.settings = Settings(QSettings(str(tmp_path / "first.ini"), QSettings.Format.IniFormat))
    _start(window, None)
    assert window.banner.isVisible() and "New here?" in window.banner.text
    window.banner.clear()
    _start(window, None)
    assert not window.banner.isVisible()
