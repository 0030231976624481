"""Pins, aligning and frames with the pointer and the keys, as a person uses them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from espalier.app.canvas.overlay import selected_rects
from espalier.app.features.edits import arrange
from espalier.app.features.edits.arrange_menu import frame_menu
from espalier.app.features.edits.edge_menu import fold_menu
from espalier.app.features.edits.titles import TitleField
from espalier.app.shell.window import Window
from espalier.model.document.arrangement import MEMBER, UNARRANGED, Arrangement, Frame
from espalier.model.document.project import Project
from espalier.passes.jobs.kinds import SaveJob
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.edits.test_menu import menu_of, stack

pytestmark = pytest.mark.gui
NODES = ("0_up", "0_act", "0_down")


@pytest.fixture
def blocks(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Iterator[Window]:
    """The window with three blocks, all of them open and laid out, the first in view."""
    open_small(window, runner, stack().project)
    window.canvas.open_all()
    qtbot.waitUntil(lambda: window.canvas.scene is not None and not window.canvas.waiting)
    look(window, "0_act")
    yield window
    for menu in window.canvas.findChildren(QMenu):
        menu.close()


def look(window: Window, node: str, scale: float = 0.8) -> None:
    """Bring a node into the middle."""
    x, y, w, h = rect(window, node)
    window.canvas.camera.scale = scale
    window.canvas.centre(x + w / 2, y + h / 2)


def rect(window: Window, node: str) -> tuple[float, float, float, float]:
    """The rectangle of what shows a node."""
    scene = window.canvas.scene
    assert scene is not None
    found = scene.rect_of(scene.layout.tree.index[node])
    assert found is not None
    return found


def pixel(window: Window, x: float, y: float) -> QPoint:
    """The pixel of a canvas point."""
    at = window.canvas.camera.to_screen(x, y)
    return QPoint(round(at[0]), round(at[1]))


def middle(window: Window, node: str) -> QPoint:
    """A pixel on the card, off its handle."""
    x, y, w, h = rect(window, node)
    return pixel(window, x + w / 3, y + h / 2)


def drag(window: Window, qtbot: QtBot, start: QPoint, way: QPoint, release: bool = True) -> None:
    """Press, move in steps, release."""
    qtbot.mousePress(window.canvas, Qt.MouseButton.LeftButton, pos=start)
    for k in (1, 2, 3):
        qtbot.mouseMove(window.canvas, start + way * k / 3)
    if release:
        qtbot.mouseRelease(window.canvas, Qt.MouseButton.LeftButton, pos=start + way)


def arrangement(window: Window) -> Arrangement:
    """The document's."""
    return window.session.open_document.arrangement


@pytest.mark.slow
def test_a_dragged_node_stays_where_it_was_put(blocks: Window, qtbot: QtBot) -> None:
    before, other = rect(blocks, "0_act"), rect(blocks, "0_up")
    asked = len(blocks.session.jobs)
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(96, 40))
    (pin,) = arrangement(blocks).pins
    assert (pin.kind, pin.name, pin.flow) == ("node", "0_act", "down")
    after = rect(blocks, "0_act")
    assert after[0] - before[0] == pytest.approx(120, abs=1) and after[1] - before[1] == pytest.approx(50, abs=1)
    assert rect(blocks, "0_up") == other, "the rest stays"
    assert blocks.session.open_document.undo_label == "Move 0_act" and len(blocks.session.jobs) == asked
    blocks.session.undo()
    assert rect(blocks, "0_act") == before and arrangement(blocks) == UNARRANGED
    blocks.session.redo()
    assert rect(blocks, "0_act") == after


@pytest.mark.slow
def test_a_short_way_is_a_click_and_the_ground_still_pans(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(2, 1))
    assert blocks.session.selection == ("0_act",) and arrangement(blocks) == UNARRANGED
    x, y, _, h = rect(blocks, "0_act")
    camera = canvas.camera.x, canvas.camera.y
    drag(blocks, qtbot, pixel(blocks, x - 30, y + h / 2), QPoint(16, -24))
    assert (camera[0] - canvas.camera.x, camera[1] - canvas.camera.y) == pytest.approx((20, -30))
    assert arrangement(blocks) == UNARRANGED


@pytest.mark.slow
def test_far_away_a_drag_on_a_node_pans(blocks: Window, qtbot: QtBot) -> None:
    """Where names cannot be read, nearly every pixel is a node."""
    look(blocks, "0_act", 0.3)
    before = blocks.canvas.camera.x
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(30, 0))
    assert blocks.canvas.camera.x == pytest.approx(before - 100) and arrangement(blocks) == UNARRANGED


@pytest.mark.slow
def test_the_outline_of_the_selection_goes_along(blocks: Window, qtbot: QtBot) -> None:
    canvas, before = blocks.canvas, rect(blocks, "0_act")
    canvas.select(["0_act"])
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(60, 30), release=False)
    assert canvas.scene is not None and canvas.marks.moving is not None
    (outline,), _, _ = selected_rects(canvas.scene, canvas.marks)
    dx, dy = canvas.marks.moving.shift
    assert dx > 0 and tuple(outline) == pytest.approx((before[0] + dx, before[1] + dy, *before[2:]))
    canvas.grab()
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    (outline,), _, _ = selected_rects(canvas.scene, canvas.marks)
    assert tuple(outline) == pytest.approx(before)


@pytest.mark.slow
def test_escape_and_an_edit_of_the_graph_put_a_dragged_node_back(blocks: Window, qtbot: QtBot) -> None:
    canvas, before = blocks.canvas, rect(blocks, "0_act")
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(60, 30), release=False)
    assert canvas.marks.moving is not None and canvas.scene is not None and canvas.scene.lifted is not None
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert canvas.marks.moving is None and canvas.scene.lifted is None and rect(blocks, "0_act") == before
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(60, 30), release=False)
    canvas.close_all()
    qtbot.waitUntil(lambda: not canvas.waiting)
    assert canvas.marks.moving is None and arrangement(blocks) == UNARRANGED


@pytest.mark.slow
def test_the_picture_of_a_dragged_node_is_that_of_the_pinned_one(blocks: Window, qtbot: QtBot) -> None:
    """What is shown while dragging lies where it is after the release: edges and card, apart from the pin's mark."""
    canvas = blocks.canvas

    def picture() -> np.ndarray:
        qtbot.waitUntil(lambda: not canvas._rest_timer.isActive())
        for _ in range(40):
            canvas.repaint()
        image = canvas.grab().toImage().convertToFormat(canvas.grab().toImage().Format.Format_RGB32)
        return np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())[:, :].copy()

    start = middle(blocks, "0_act")
    drag(blocks, qtbot, start, QPoint(80, 32), release=False)
    canvas.marks.hover = None
    while_dragged = picture()
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=start + QPoint(80, 32))
    canvas.marks.hover = None
    after = picture()
    differing = (np.abs(while_dragged.astype(int) - after.astype(int)) > 60).mean()
    assert differing < 0.004, "a pin and the smoothing of the card's place"


@pytest.mark.slow
def test_the_selection_moves_together_and_unpins_together(blocks: Window, qtbot: QtBot) -> None:
    places = {n: rect(blocks, n) for n in NODES}
    blocks.session.select(NODES)
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(40, 40))
    assert {p.name for p in arrangement(blocks).pins} == set(NODES)
    for node, before in places.items():
        assert rect(blocks, node)[0] - before[0] == pytest.approx(50, abs=1)
    menu = menu_of(blocks, "0_act")
    rows = {a.text().partition("\t")[0]: a for a in menu.actions()}
    rows["Unpin"].trigger()
    assert {p.name for p in arrangement(blocks).pins} == {"0_up", "0_down"}
    assert rect(blocks, "0_act") == places["0_act"]
    blocks.actions_table.run("unpin_all")
    assert arrangement(blocks) == UNARRANGED and blocks.session.open_document.undo_label == "Unpin all"


def test_a_wire_still_begins_at_the_handle(blocks: Window, qtbot: QtBot) -> None:
    x, y, w, h = rect(blocks, "0_norm")
    look(blocks, "0_norm")
    drag(blocks, qtbot, pixel(blocks, x + w / 2, y + h), QPoint(60, 60), release=False)
    assert blocks.canvas.marks.wire is not None and blocks.canvas.marks.moving is None
    qtbot.keyClick(blocks.canvas, Qt.Key.Key_Escape)


@pytest.mark.slow
def test_a_folded_card_is_dragged_and_opens_by_a_click(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    canvas.close_all()
    qtbot.waitUntil(lambda: not canvas.waiting)
    assert canvas.scene is not None and len(canvas.scene.layout.folds) == 1
    x, y, _, _ = rect(blocks, "0_act")
    look(blocks, "0_act")
    drag(blocks, qtbot, pixel(blocks, x + 20, y + 10), QPoint(-80, 40))
    (pin,) = arrangement(blocks).pins
    assert pin.kind == "fold"
    assert rect(blocks, "0_act")[:2] == pytest.approx((x - 100, y + 50), abs=1)
    canvas.set_folding(False)
    qtbot.waitUntil(lambda: not canvas.waiting)
    assert canvas.scene.layout.pinned == (), "each group has a place of its own"
    canvas.set_folding(True)
    qtbot.waitUntil(lambda: not canvas.waiting)
    assert rect(blocks, "0_act")[:2] == pytest.approx((x - 100, y + 50), abs=1)
    fold = canvas.scene.layout.folds[0]
    canvas.click(QPointF(pixel(blocks, x - 100 + 20, y + 50 + 10)), False)
    rows = {a.text().partition("\t")[0]: a for a in fold_menu(blocks.host, fold, -1).actions()}
    rows["Unpin"].trigger()
    assert arrangement(blocks) == UNARRANGED


def test_aligning_is_one_undo_and_says_what_it_needs(blocks: Window) -> None:
    blocks.session.select(NODES)
    blocks.actions_table.run("align_left")
    lefts = {round(rect(blocks, n)[0], 1) for n in NODES}
    assert len(lefts) == 1 and blocks.session.open_document.undo_label == "Align left edges of 3 boxes"
    blocks.session.undo()
    assert arrangement(blocks) == UNARRANGED
    blocks.session.select(NODES[:2])
    arrange.align(blocks.host, "vertically")
    assert arrangement(blocks) == UNARRANGED and "needs 3" in blocks.banner.text


def test_a_pin_measures_nothing_and_keeps_the_score(blocks: Window, qtbot: QtBot) -> None:
    changes: list[object] = []
    blocks.session.changed.connect(changes.append)
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(40, 40))
    assert changes == [] and blocks.isWindowModified()


@pytest.mark.slow
def test_the_copy_for_recovery_has_it(blocks: Window, qtbot: QtBot, runner: list[FakeRunner]) -> None:
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(40, 40))

    def copies() -> list[SaveJob]:
        return [j.job for j in runner[-1].waiting if isinstance(j.job, SaveJob) and j.job.copy]

    qtbot.waitUntil(lambda: bool(copies()), timeout=10_000)
    assert MEMBER in copies()[0].project.extras


# -- frames


def title_field(window: Window) -> TitleField:
    """The field in which a title is typed."""
    (field,) = (f for f in window.canvas.findChildren(TitleField) if f.isVisible())
    return field


def framed(window: Window, qtbot: QtBot, title: str = "Feed forward") -> None:
    """Group three nodes by the key, and type the title."""
    window.session.select(NODES)
    window.actions_table.run("frame_nodes")
    field = title_field(window)
    assert field.text() == "Frame 1"
    field.setText(title)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def tab(window: Window) -> QPoint:
    """A pixel on the title of the only frame."""
    assert window.canvas.scene is not None
    (frame,) = window.canvas.scene.layout.own_frames
    return pixel(window, frame.tab[0] + 6, frame.tab[1] + frame.tab[3] / 2)


@pytest.mark.slow
def test_a_frame_is_made_moved_renamed_and_removed(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    framed(blocks, qtbot)
    assert arrangement(blocks).frames == (Frame("Feed forward", NODES),)
    places = {n: rect(blocks, n) for n in NODES}
    still = rect(blocks, "0_norm")
    drag(blocks, qtbot, tab(blocks), QPoint(48, 16))
    assert blocks.session.open_document.undo_label == "Move 3 boxes"
    for node, before in places.items():
        assert rect(blocks, node)[0] - before[0] == pytest.approx(60, abs=1)
    assert rect(blocks, "0_norm") == still
    blocks.session.select(())
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=tab(blocks))
    assert canvas.chosen_frame == 0 and set(blocks.session.selection) == set(NODES)
    assert canvas.scene is not None and canvas.marks.frame == canvas.scene.layout.own_frames[0].rect
    drag(blocks, qtbot, tab(blocks), QPoint(8, 8))
    assert canvas.marks.frame == canvas.scene.layout.own_frames[0].rect, "its outline moves with it"
    blocks.session.undo()
    qtbot.keyClick(canvas, Qt.Key.Key_F2)
    field = title_field(blocks)
    assert field.text() == "Feed forward"
    field.setText("MLP")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert arrangement(blocks).frames[0].title == "MLP"
    qtbot.keyClick(canvas, Qt.Key.Key_Delete)
    assert arrangement(blocks).frames == () and len(arrangement(blocks).pins) == 3, "the nodes stay where they are"
    assert blocks.session.recipe == blocks.session.open_document.project.recipe, "no node was bypassed"
    for _ in range(4):
        blocks.session.undo()
    assert arrangement(blocks) == UNARRANGED


@pytest.mark.slow
def test_escape_makes_no_frame(blocks: Window, qtbot: QtBot) -> None:
    blocks.session.select(NODES)
    blocks.actions_table.run("frame_nodes")
    qtbot.keyClick(title_field(blocks), Qt.Key.Key_Escape)
    assert arrangement(blocks) == UNARRANGED


@pytest.mark.slow
def test_enter_in_the_title_is_not_of_the_canvas(blocks: Window, qtbot: QtBot) -> None:
    """On the canvas, Enter would open what hides the selected nodes."""
    canvas = blocks.canvas
    canvas.close_all()
    qtbot.waitUntil(lambda: not canvas.waiting)
    look(blocks, "0_act")
    canvas.select(NODES)
    framed_now = canvas.open_groups
    arrange.frame_nodes(blocks.host)
    qtbot.keyClick(title_field(blocks), Qt.Key.Key_Return)
    qtbot.wait(20)
    assert canvas.open_groups == framed_now and arrangement(blocks).frames == (Frame("Frame 1", NODES),)


@pytest.mark.slow
def test_a_frame_follows_its_nodes(blocks: Window, qtbot: QtBot) -> None:
    framed(blocks, qtbot)
    canvas = blocks.canvas
    assert canvas.scene is not None
    canvas.set_horizontal(True)
    qtbot.waitUntil(lambda: not canvas.waiting)
    (frame,) = canvas.scene.layout.own_frames
    for node in NODES:
        x, y, w, h = rect(blocks, node)
        assert frame.rect[0] < x and frame.rect[1] < y
        assert x + w < frame.rect[0] + frame.rect[2] and y + h < frame.rect[1] + frame.rect[3]
    canvas.close_all()
    qtbot.waitUntil(lambda: not canvas.waiting)
    (frame,) = canvas.scene.layout.own_frames
    x, _, w, _ = rect(blocks, "0_act")
    assert frame.rect[0] < x and x + w < frame.rect[0] + frame.rect[2], "around the card that hides them"


@pytest.mark.slow
def test_the_menu_of_a_frame(blocks: Window, qtbot: QtBot) -> None:
    framed(blocks, qtbot)
    canvas, spot = blocks.canvas, tab(blocks)
    QApplication.sendEvent(canvas, QContextMenuEvent(QContextMenuEvent.Reason.Mouse, spot, canvas.mapToGlobal(spot)))
    opened = [m for m in canvas.findChildren(QMenu) if m.isVisible()]
    assert [m.actions()[0].text() for m in opened] == ["Feed forward"]
    opened[0].close()
    menu = frame_menu(blocks.host, 0)
    colours = next(a.menu() for a in menu.actions() if a.text() == "Colour")
    assert isinstance(colours, QMenu)
    next(a for a in colours.actions() if a.text() == "purple").trigger()
    assert arrangement(blocks).frames[0].colour == "purple"
    arrange.add_to_frame(blocks.host, 0, ("0_norm",))
    assert arrangement(blocks).frames[0].nodes == (*NODES, "0_norm")
    arrange.take_out(blocks.host, (*NODES, "0_norm"))
    assert arrangement(blocks).frames == (), "a frame without nodes goes"


@pytest.mark.slow
def test_it_is_saved_with_the_project_and_opened_again(
    blocks: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path_factory: pytest.TempPathFactory
) -> None:
    framed(blocks, qtbot)
    drag(blocks, qtbot, middle(blocks, "0_act"), QPoint(40, 16))
    blocks.session.save_as(tmp_path_factory.mktemp("saved") / "a.espalier")
    info = next(j for j in runner[-1].waiting if isinstance(j.job, SaveJob) and not j.job.copy)
    job = info.job
    assert isinstance(job, SaveJob) and isinstance(job.project, Project) and MEMBER in job.project.extras
    runner[-1].cancel(info.id)
    place = rect(blocks, "0_act")
    blocks.session.close()
    assert blocks.canvas.arrangement == UNARRANGED
    open_small(blocks, runner, job.project)
    qtbot.waitUntil(lambda: blocks.canvas.scene is not None and not blocks.canvas.waiting)
    assert arrangement(blocks).frames == (Frame("Feed forward", NODES),) and not blocks.session.open_document.dirty
    assert rect(blocks, "0_act") == place
