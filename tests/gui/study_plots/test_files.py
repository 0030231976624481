"""Charts of a study as files."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from app.plots.study.board import KINDS, StudyBoard
from app.plots.study.comparison import Compared
from tests.gui.made_study import GOALS, trials
from tests.gui.study_plots.shown import show

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_written_to_a_file(board: StudyBoard, kind: str, tmp_path: Path) -> None:
    show(board, 40, kind)
    board.compare([Compared("one", "tpe", tuple(trials(40)), GOALS)])
    for ending in ("png", "svg", "csv"):
        board.tiles[0].export(tmp_path / f"chart.{ending}")
    assert QImage(str(tmp_path / "chart.png")).width() == 2 * board.tiles[0].chart.width()
    assert ET.parse(tmp_path / "chart.svg").getroot().tag.endswith("svg")
    rows = list(csv.reader((tmp_path / "chart.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 10 or kind == "Importance"
    assert kind in ("Choice map", "Comparison", "Importance") or rows[1][:2] == ["0", "complete"]
