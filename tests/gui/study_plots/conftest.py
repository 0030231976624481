"""A board of charts for the tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import StudyBoard


@pytest.fixture
def board(qtbot: QtBot) -> Iterator[StudyBoard]:
    """A board that is shown, with one chart and no study."""
    made = StudyBoard()
    made.lay_out(1)
    made.resize(1200, 700)
    made.show()
    yield made
    made.close()
    made.deleteLater()
