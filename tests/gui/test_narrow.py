"""A small window: what does not fit goes on in the next line or is told of, and nothing stands over anything else."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.features.jobs.state import job_list_of
from espalier.app.features.score.panel import ScorePanel
from espalier.app.shell.application import show_within
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.flow_layout import FlowLayout


def test_a_flow_breaks_its_line_where_the_width_ends(qtbot: QtBot) -> None:
    held = QWidget()
    qtbot.addWidget(held)
    flow, parts = FlowLayout(held, spacing=8), [QLabel() for _ in range(4)]
    for part in parts:
        part.setFixedSize(100, 20)
        flow.addWidget(part)
    held.resize(250, 60)
    held.show()
    assert [p.geometry().getRect()[:2] for p in parts] == [(0, 0), (108, 0), (0, 24), (108, 24)]
    assert flow.heightForWidth(250) == 44 and flow.heightForWidth(430) == 20
    parts[0].hide()
    assert flow.heightForWidth(330) == 20
    assert not any(a.geometry().intersects(b.geometry()) for a, b in pairwise(parts[1:]))


def test_the_drawer_leaves_most_of_a_low_window(opened: Window) -> None:
    opened.resize(1100, 700)
    for name in ("nodes", "tables", "jobs"):
        opened.docks.bring(name)
        QApplication.processEvents()
        assert 150 <= opened.docks.docks[name].height() <= 0.36 * opened.height()


def test_no_figure_of_the_score_is_lost_silently(opened: Window) -> None:
    score = SimpleNamespace(accuracy=0.985, loss=0.032, size_bytes=9 << 10, weight_bits=8.1, activation_bits=9.2,
                     bitops=5.1e7, sparsity=0.25, memory_density=3.9)  # fmt: skip
    panel = opened.statusBar().findChild(ScorePanel)
    assert isinstance(panel, ScorePanel)
    figures = {k: panel.figures[k] for k in panel._shown}  # without those of other tasks
    for key, figure in figures.items():
        figure.show_value(getattr(score, key), 1.5 * getattr(score, key), True)
    for width in (1600, 1000, 760, 500, 200):
        panel.setFixedWidth(width)
        QApplication.processEvents()
        shown = [f for f in figures.values() if f.isVisible()]
        ends = [f.geometry() for f in shown] + ([panel.more.geometry()] if panel.more.isVisible() else [])
        assert all(a.right() < b.left() for a, b in pairwise(ends)) and ends[-1].right() <= width
        hidden = [f.full_text for f in figures.values() if not f.isVisible()]
        assert all(f._value.width() >= f._value.sizeHint().width() for f in shown), "a figure is cut"
        assert panel.more.toolTip().splitlines() == hidden and panel.more.isVisible() == bool(hidden)
        assert (len(shown) == len(figures)) == (width >= 1600)
        traced = [f for f in figures.values() if f.trace]
        assert all(f.isVisible() and f.trace.isVisible() and not f._change.isHidden() for f in traced) == (width >= 760)


def test_what_runs_stands_whole_beside_the_figures(opened: Window) -> None:
    line = opened.status
    job_list_of(opened.session)._clock.stop()  # else it tells that nothing runs
    for width in (1600, 1100, 1000):
        opened.resize(width, 700)
        line.show_job("Simulate the hardware: building the simulation, 23 % (2 waiting)")
        QApplication.processEvents()
        job, figures = line._job, [f for f in line.score.figures.values() if f.isVisible()]
        assert job.text().startswith("Simulate the hardware"), "elided at its end"
        assert job.fontMetrics().horizontalAdvance(job.text()) < job.width()
        assert line.score.geometry().right() < job.geometry().left()
        assert figures and all(f.geometry().right() <= line.score.width() for f in figures)
        line.show_job("")
        assert not job.isVisible()


def test_no_figure_moves_when_a_job_begins_or_ends(opened: Window) -> None:
    line = opened.status
    job_list_of(opened.session)._clock.stop()  # else it tells that nothing runs
    for width in (1000, 1280, 1440, 1600, 1920):
        opened.resize(width, 800)
        places = set[tuple[int, ...]]()
        for text in ("", "Simulate", "Search · 12 of 30 trials · 47 s left, about 3 min of processor time", ""):
            line.show_job(text)
            QApplication.processEvents()
            score = line.score
            shown = (*score.figures.values(), score.more, score.baseline)
            places.add(tuple(w.mapTo(opened, w.rect().topLeft()).x() if w.isVisible() else -1 for w in shown))
        assert len(places) == 1, width


def test_what_runs_takes_the_room_that_the_figures_leave(opened: Window) -> None:
    line, words = opened.status, "Search · 12 of 30 trials · 47 s left, about 3 min of processor time"
    job_list_of(opened.session)._clock.stop()  # else it tells that nothing runs
    for width in (1280, 1600, 2400):
        opened.resize(width, 800)
        QApplication.processEvents()
        line.show_job(words)
        QApplication.processEvents()
        score = line.score
        shown = [f for f in score.figures.values() if f.isVisible()]
        free = score.width() - max(w.geometry().right() for w in (*shown, score.more, score.baseline) if w.isVisible())
        assert line._job.text() == words or free < 60, f"{free} pixels are free beside cut words at {width}"


@pytest.mark.parametrize(("room", "size"), [((1280, 800), (1280, 800)), ((1920, 1080), (1440, 900))])
def test_the_window_opens_no_larger_than_the_screen(
    window: Window, monkeypatch: pytest.MonkeyPatch, room: tuple[int, int], size: tuple[int, int]
) -> None:
    asked: list[str] = []
    window.resize(1440, 900)
    for name in ("show", "showMaximized"):  # a platform without a screen of its own has another size for "maximised"
        monkeypatch.setattr(window, name, lambda name=name: asked.append(name))
    show_within(window, QSize(*room))
    assert (window.width(), window.height()) == size
    assert asked == ["show" if size == (1440, 900) else "showMaximized"]
