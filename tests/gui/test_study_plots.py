"""The board of a study: what each chart draws, tells, keeps and says when there is nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.plots.study.board import KINDS, StudyBoard
from tests.gui.made_study import BASELINE, GOALS, WITHIN, choices, trial, trials

pytestmark = pytest.mark.gui


@pytest.fixture
def board(qtbot: QtBot) -> Iterator[StudyBoard]:
    """A board that is shown, with no study."""
    made = StudyBoard()
    made.resize(1200, 700)
    made.show()
    yield made
    made.close()
    made.deleteLater()


def show(board: StudyBoard, count: int = 60) -> None:
    """A made study of so many trials."""
    board.show_study(trials(count), GOALS, choices(), baseline=BASELINE, within=WITHIN)


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_says_in_words_that_there_is_nothing(board: StudyBoard, kind: str) -> None:
    board.tiles[0].show_kind(kind)
    tile = board.tiles[0]
    assert tile._pages.currentWidget() is tile._words and len(tile._words.text()) > 20


def test_a_trial_that_ends_takes_the_place_of_the_one_that_ran(board: StudyBoard, qtbot: QtBot) -> None:
    show(board, 10)
    board.append(trial(10, running=True))
    board.append(trial(10))
    qtbot.waitUntil(lambda: not board._fresh)
    assert len(board.study) == 11 and board.study.trials[10].state == "complete"
