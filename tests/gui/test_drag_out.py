"""Figures dragged or copied into other programs: what they offer, and their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDrag, QDragEnterEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.features.data.charts.confusion import ConfusionView
from espalier.app.shell.window import Window
from espalier.app.widgets.charts.metrics import MetricChart
from espalier.app.widgets.drag_handle import DragHandle
from espalier.app.widgets.figure_files import (
    CSV,
    IMAGE,
    PNG,
    SVG,
    URLS,
    FigureData,
    FigureFiles,
    file_stem,
    files_of,
    is_own,
    picture_offer,
)
from espalier.app.widgets.table import Table
from espalier.model.errors import FileError
from tests.attack.test_disks import disk

pytestmark = pytest.mark.gui
SERIES = {"training loss": [(0, 2.0), (10, 1.0)]}


@pytest.fixture
def chart(qtbot: QtBot) -> MetricChart:
    """A chart in a window of its own."""
    made = MetricChart("loss")
    qtbot.addWidget(made)
    made.show_series(SERIES)
    made.resize(300, 200)
    made.show()
    return made


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[QMimeData]]:
    """The data of drags that were started; none is carried out."""
    seen: list[QMimeData] = []

    def exec_(drag: QDrag, *_: object) -> Qt.DropAction:
        seen.append(drag.mimeData())
        return Qt.DropAction.IgnoreAction

    monkeypatch.setattr(QDrag, "exec", exec_)
    yield seen


def local(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls()]


def test_a_chart_offers_svg_png_an_image_and_a_file(chart: MetricChart) -> None:
    data = chart.handle.data()
    assert {SVG, PNG, IMAGE, URLS} <= set(data.formats())
    assert data.data(SVG).data().startswith(b"<?xml")
    assert data.data(PNG).data().startswith(b"\x89PNG")
    assert data.imageData().width() == 2 * 520  # twice the size of exported charts
    (path,) = local(data)
    assert path.name == "loss-by-step.png" and path.read_bytes() == data.data(PNG).data()
    assert [p.suffix for p in local(chart.handle.data(vector=True))] == [".svg"]


def test_nothing_is_rendered_until_it_is_asked_for(chart: MetricChart, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(chart, "export", lambda path: written.append(path.suffix) or path.write_bytes(b"x"))
    data = chart.handle.data()
    assert data.hasUrls() and data.hasImage() and is_own(data)
    assert written == []
    assert data.data(PNG).data() == b"x"
    assert local(data)[0].read_bytes() == b"x"
    assert written == [".png"]  # once for both


def test_files_are_beside_one_another_and_go_with_the_window(qtbot: QtBot) -> None:
    window = QWidget()
    files = FigureFiles(window, lambda: "reviews small")
    first, second = files.write("Loss by step", ".png", b"1"), files.write("Loss by step", ".png", b"2")
    assert (first.name, second.name) == ("reviews-small-loss-by-step.png", "reviews-small-loss-by-step-2.png")
    assert first.read_bytes() == b"1"
    window.deleteLater()
    qtbot.waitUntil(lambda: not first.parent.exists(), timeout=5000)


STEMS = [("a/b: c", "a-b-c"), ("../..", ""), ("Größe", "größe"), ("x" * 99, "x" * 60)]


@pytest.mark.parametrize(("text", "stem"), STEMS)
def test_file_stems(text: str, stem: str) -> None:
    assert file_stem(text) == stem


def test_a_floating_dock_shares_the_files_of_its_window(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    files = FigureFiles(window)
    floating = QWidget(window, Qt.WindowType.Tool)
    assert floating.window() is floating and files_of(floating) is files


def test_an_error_is_told_and_drops_nothing(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    files, told = FigureFiles(window), []
    files.failed.connect(told.append)

    def write(path: Path) -> None:
        raise FileError("No space is left.")

    data = FigureData(picture_offer("chart", write), files)
    assert data.urls() == [] and [e.message for e in told] == ["No space is left."]


@pytest.mark.parametrize("options", ["size=4k", "size=12k", "nr_inodes=1"])
def test_a_full_temporary_folder_is_told_and_keeps_nothing(
    options: str, chart: MetricChart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[FileError] = []
    files_of(chart).failed.connect(told.append)
    with disk(tmp_path / "disk", options) as folder:
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        data = chart.handle.data()
        assert data.urls() == [] and told and "No space left" in told[0].message and told[0].hint
        assert not [f for f in folder.rglob("*") if f.suffix in (".svg", ".png")]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files_of(chart).end()
    count = len(told)
    assert len(local(chart.handle.data())) == 1 and len(told) == count


def test_the_handle_starts_a_drag_and_a_click_opens_the_menu(chart: MetricChart, pulled: list[QMimeData]) -> None:
    chart.setFocus()
    QApplication.sendEvent(chart, QEvent(QEvent.Type.Enter))
    handle = chart.handle
    assert handle.isVisible() and chart.rect().contains(handle.geometry())
    middle = handle.rect().center()
    QTest.mousePress(handle, Qt.MouseButton.LeftButton, pos=middle)
    QTest.mouseMove(handle, middle + QPoint(40, 30))
    assert len(pulled) == 1 and pulled[0].hasUrls()
    QTest.mouseRelease(handle, Qt.MouseButton.LeftButton, pos=middle)
    assert handle.findChild(QMenu) is None
    QTest.mouseClick(handle, Qt.MouseButton.LeftButton, pos=middle)
    menu = handle.findChild(QMenu)
    assert menu is not None and [a.text() for a in menu.actions()] == ["Copy picture", "Copy values"]
    menu.close()


def test_the_handle_goes_with_the_pointer(chart: MetricChart) -> None:
    chart.clearFocus()
    QApplication.sendEvent(chart, QEvent(QEvent.Type.Enter))
    assert chart.handle.isVisible()
    QApplication.sendEvent(chart, QEvent(QEvent.Type.Leave))
    assert not chart.handle.isVisible()


def test_ctrl_c_copies_the_picture_of_a_chart(chart: MetricChart, qtbot: QtBot) -> None:
    chart.activateWindow()
    chart.setFocus()
    qtbot.waitUntil(chart.hasFocus, timeout=5000)
    QTest.keyClick(chart, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    data = QGuiApplication.clipboard().mimeData()
    assert data.hasImage() and data.data(SVG).data().startswith(b"<?xml")


def test_the_menu_copies_values(qtbot: QtBot) -> None:
    import numpy as np

    view = ConfusionView()
    qtbot.addWidget(view)
    view.show_matrix(np.array([[3, 1], [0, 4]]), ("no", "yes"))
    menu = view.handle.open_menu(QPoint())
    next(a for a in menu.actions() if a.text() == "Copy values").trigger()
    menu.close()
    assert QGuiApplication.clipboard().text() == "true class\tno\tyes\nno\t3\t1\nyes\t0\t4\n"
    assert view.handle.data().data(SVG).data().count(b"<text") >= 4


def test_a_table_offers_its_selected_rows_or_all(qtbot: QtBot) -> None:
    table = Table()
    qtbot.addWidget(table)
    table.setAccessibleName("Nodes")
    table.show_rows([{"node": n, "bits": b} for n, b in (("a", 8), ("b", 4), ("c", 2))])
    data = table.handle.data()
    assert data.text() == "node\tbits\na\t8\nb\t4\nc\t2\n"
    assert data.data(CSV).data() == b"node,bits\na,8\nb,4\nc,2\n"
    table.mark_nodes(["a", "c"])
    data = table.handle.data()
    assert data.text() == "node\tbits\na\t8\nc\t2\n"
    assert [(p.name, p.read_text()) for p in local(data)] == [("nodes.csv", "node,bits\na,8\nc,2\n")]


@pytest.mark.slow
def test_the_window_names_files_after_the_model_and_opens_none_of_its_own(opened: Window) -> None:
    data = opened.canvas.handle.data(vector=True)
    (path,) = local(data)
    assert path.name == "small-graph.svg" and "fc1" in path.read_text()
    other = QMimeData()
    other.setUrls([QUrl.fromLocalFile(str(path))])
    assert accepts(opened, other)
    assert not accepts(opened, data)
    opened.close_now()
    assert not path.exists()


def accepts(window: Window, data: QMimeData) -> bool:
    """Whether the window takes a drag with this data."""
    event = QDragEnterEvent(QPoint(9, 9), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
                            Qt.KeyboardModifier.NoModifier)  # fmt: skip
    event.ignore()
    window.dragEnterEvent(event)
    return event.isAccepted()


@pytest.mark.slow
def test_the_picture_of_the_graph_is_copied_by_its_menus(opened: Window) -> None:
    QGuiApplication.clipboard().clear()
    opened.actions_table.run("copy_picture")
    assert opened.canvas.handle.figure is opened.canvas
    assert b"fc2" in QGuiApplication.clipboard().mimeData().data(SVG).data()


@pytest.mark.slow
def test_a_press_on_the_handle_does_not_reach_the_graph(opened: Window, pulled: list[QMimeData]) -> None:
    canvas = opened.canvas
    QApplication.sendEvent(canvas, QEvent(QEvent.Type.Enter))
    canvas.select(["fc1"])
    before = canvas.look()
    QTest.mousePress(canvas.handle, Qt.MouseButton.LeftButton)
    QTest.mouseMove(canvas.handle, QPoint(-60, 60))
    QTest.mouseRelease(canvas.handle, Qt.MouseButton.LeftButton)
    assert len(pulled) == 1 and canvas.look() == before and canvas.selection() == ("fc1",)


@pytest.mark.slow
def test_every_chart_and_table_of_the_window_has_a_handle(opened: Window) -> None:
    """Each figure of a panel that is built has exactly one, which is a child of it."""
    from espalier.app.widgets.charts.chart import Chart

    opened.docks.bring("nodes")
    figures: list[QWidget] = [*opened.findChildren(Chart), *opened.findChildren(Table)]
    assert figures
    for figure in figures:
        handles = [h for h in figure.findChildren(DragHandle) if h.figure is figure]
        assert len(handles) == 1, figure.accessibleName()
    assert QPointF(opened.canvas.handle.pos()).x() > 0
