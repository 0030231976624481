"""Charts of a study as files: light, with text that is text, and figures that a table can read."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from espalier.app.features.search.charts.board import KINDS, StudyBoard
from espalier.app.features.search.charts.comparison import Compared
from espalier.app.features.search.charts.tile import BETWEEN
from espalier.app.number_text import percent
from espalier.app.widgets.style import Appearance
from tests.gui.search.made_study import BASELINE, GOALS, trials
from tests.gui.study_plots.shown import show

pytestmark = pytest.mark.gui
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_written_to_a_file(board: StudyBoard, kind: str, tmp_path: Path) -> None:
    show(board, 40, kind)
    board.compare([Compared("one", "tpe", tuple(trials(40)), GOALS)])
    for ending in ("png", "svg", "csv"):
        board.tiles[0].export(tmp_path / f"chart.{ending}")
    assert QImage(str(tmp_path / "chart.png")).width() == 2 * board.tiles[0].chart.width()
    root = ET.parse(tmp_path / "chart.svg").getroot()
    words = ["".join(t.itertext()).strip() for t in root.iter(f"{SVG}text")]
    assert any(len(w) > 2 for w in words)
    rows = list(csv.reader((tmp_path / "chart.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 10 or kind == "Importance"
    assert kind in ("Choice map", "Comparison", "Importance") or rows[1][:2] == ["0", "complete"]


@pytest.mark.parametrize("kind", ["History", "Pareto front", "Slices", "Timeline", "Intermediate values"])
def test_a_file_of_vectors_has_marks_and_no_pictures(board: StudyBoard, kind: str, tmp_path: Path) -> None:
    show(board, 60, kind)
    board.tiles[0].export(tmp_path / "chart.svg")
    root = ET.parse(tmp_path / "chart.svg").getroot()
    shapes = sum(
        1
        for tag in ("circle", "ellipse", "rect", "path", "polygon", "polyline", "line")
        for _ in root.iter(f"{SVG}{tag}")
    )
    assert shapes >= 40 and not list(root.iter(f"{SVG}image"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["History", "Parallel coordinates"])
def test_a_file_is_light_where_the_window_is_dark(
    board: StudyBoard, kind: str, tmp_path: Path, qapp: QApplication
) -> None:
    chart = show(board, 40, kind)
    appearance = Appearance(qapp, "light")
    board.tiles[0].export(tmp_path / "light.png")
    appearance.set_mode("dark")
    board.tiles[0].export(tmp_path / "dark.png")
    assert chart.look.dark
    light, dark = (QImage(str(tmp_path / f"{n}.png")) for n in ("light", "dark"))
    spots = [(x, y) for x in range(0, light.width(), 9) for y in range(0, light.height(), 9)]
    differ = sum(light.pixel(*s) != dark.pixel(*s) for s in spots)
    assert dark.pixelColor(3, 3).name() == "#ffffff" and differ < 0.01 * len(spots)
    appearance.set_mode("light")
    appearance.deleteLater()


def test_a_narrow_legend_has_two_lines_and_ends_with_a_whole_word(board: StudyBoard, qapp: QApplication) -> None:
    show(board, 60)
    qapp.processEvents()
    tile = board.tiles[0]
    whole = tile.legend.toolTip()
    assert f"{board.study.named} {percent(BASELINE['accuracy'])}" in whole
    for width in (400, 300, 260, 200):
        board.resize(width, 300)
        qapp.processEvents()
        first, _, second = (short := tile.legend.text()).partition("<br>")
        parts = short.removesuffix(" …").replace("<br>", BETWEEN)
        assert "<br>" not in second and whole.startswith(parts) and (short.endswith("…") or parts == whole)
        if second:
            assert tile.legend.sizeHint().height() > 1.8 * tile.legend.fontMetrics().height()
    assert first and second.endswith(" …") and board.study.named not in short
