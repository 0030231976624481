"""The Data panel: figures and charts of the data, samples in pages, filters, what the model gets wrong, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.data.charts.data_charts import ClassChart, LengthChart
from espalier.app.features.data.panel import DataPanel
from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.shell.window import Window
from espalier.model.data.summary import DataSummary, SplitSummary
from espalier.passes.analysis.data_rows import PAGE, DataRowsOptions
from espalier.passes.analysis.predictions import Predictions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Done, Failed, JobInfo, PartialResult, Started
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui
CLASSES = ("negative", "positive")
TRAIN, TEST = SplitSummary("train", (30, 10), (5, 20, 15), 8), SplitSummary("test", (6, 4), (2, 5, 3), 2)
LOOK = DataSummary("mine", "text", CLASSES, (TRAIN, TEST), 4, (0, 2, 4, 6), 3, 9)
TOLD = Predictions("test", CLASSES, np.array([0, 0, 1, 1, 0]), np.array([0, 1, 1, 0, 0]),
                   np.array([0.9, 0.6, 0.8, 0.99, 0.7], np.float32))  # fmt: skip


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner]) -> DataPanel:
    """The panel of the window with the small model, in front."""
    open_small(window, runner, small_project(data="mine.csv"))
    window.live.enabled = False
    window.show_dock("data")
    found = window.docks.panels["data"]
    assert isinstance(found, DataPanel)
    return found


def plain(text: str) -> str:
    return text.replace("\u2009", " ")


def job(runner: list[FakeRunner], name: str) -> JobInfo | None:
    found = [j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name]
    return found[-1] if found else None


def answer(qtbot: QtBot, runner: list[FakeRunner], name: str, report: Report, part: Any = None) -> Any:
    """Let the worker answer an analysis; returns its options."""
    qtbot.waitUntil(lambda: job(runner, name) is not None, timeout=3000)
    info = job(runner, name)
    assert info is not None and isinstance(info.job, AnalyseJob)
    runner[-1].tell(info, Started())
    if part is not None:
        runner[-1].tell(info, PartialResult(part))
    runner[-1].tell(info, Done(report))
    return info.job.step.options


def rows(start: int, count: int, found: int) -> Report:
    some = (
        {"sample": n, "class": CLASSES[n % 2], "text": f"text {n} < &", "tokens": 5}
        for n in range(start, start + count)
    )
    return Report("data_rows", tuple(some), {"split": "test", "found": found})


def loaded(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot, problem: tuple[str, str] = ("", "")) -> None:
    answer(qtbot, runner, "data", Report("data"), (LOOK, problem))
    answer(qtbot, runner, "data_rows", rows(0, 5, 5))


@pytest.mark.slow
def test_nothing_is_loaded_before_somebody_looks(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_small(window, runner, small_project(data="mine.csv"))
    qtbot.wait(100)
    assert job(runner, "data") is None
    window.show_dock("data")
    qtbot.waitUntil(lambda: job(runner, "data") is not None, timeout=3000)


def test_figures_charts_and_samples(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    loaded(panel, runner, qtbot)
    words = plain(panel.facts.text())
    assert "50 texts" in words and "train 40 · test 10" in words and "negative is 2.6 times" in words
    assert "Majority-class accuracy: 60.0 % on test" in words and panel.misfit.isHidden()
    assert plain(panel.classes.tooltip_at(0.1)) == "negative\ntrain: 30 (75.0 %)\ntest: 6 (60.0 %)"
    assert plain(panel.lengths.tooltip_at(3)) == "2 … 3 tokens: 25 texts (50.0 %)"
    assert plain(panel.lengths.tooltip_at(5.5)).startswith("4 or more")
    assert "max length 4 truncates 20.0 %" in plain(panel.lengths._heading)
    assert panel.browser.split.get() == "test" and len(panel.browser.table.samples.rows) == 5
    assert plain(panel.browser.counts.text()) == "5 samples"


@pytest.mark.slow
def test_pages_follow_the_scrolling(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    answer(qtbot, runner, "data", Report("data"), (LOOK, ("", "")))
    wish = answer(qtbot, runner, "data_rows", rows(0, PAGE, 450))
    assert wish.limit == PAGE and wish.start == 0 and wish.split == "test"
    model = panel.browser.table.samples
    table = panel.browser.table
    table.scrollToBottom()
    qtbot.waitUntil(lambda: job(runner, "data_rows") is not None, timeout=3000)
    assert not model.canFetchMore(model.index(-1, -1)), "asked once"
    assert answer(qtbot, runner, "data_rows", rows(PAGE, PAGE, 450)).start == PAGE
    assert len(model.rows) == 2 * PAGE and model.rows[-1]["sample"] == 2 * PAGE - 1
    jobs = table.window().docks.panels["jobs"]  # type: ignore[attr-defined]
    assert isinstance(jobs, JobsPanel) and all("Samples" not in r.job.title for r in jobs._rows.values())


def test_filters_ask_anew(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    loaded(panel, runner, qtbot)
    panel.browser.of_class.put("positive")
    panel.browser.of_class.edited.emit()
    assert answer(qtbot, runner, "data_rows", rows(0, 2, 2)).of_class == "positive"
    qtbot.keyClicks(panel.browser.words, "plot")
    assert answer(qtbot, runner, "data_rows", rows(0, 0, 0)).holding == "plot"
    assert "No sample matches" in panel.browser._empty.text()


def test_what_the_model_gets_wrong(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot, window: Window) -> None:
    loaded(panel, runner, qtbot)
    panel.browser.predict.click()
    assert not panel.browser.predict.isEnabled()
    options = answer(qtbot, runner, "predictions", Report("predictions"), TOLD)
    assert options.split == "test" and options.data == "mine.csv"
    wish = answer(qtbot, runner, "data_rows", rows(0, 4, 4))
    assert wish.among == (3, 1), "the surest mistakes first"
    row = panel.browser.table.samples.rows[3]
    assert row["predicted"] == "negative" and row["confidence"] == pytest.approx(0.99) and row["class"] == "positive"
    assert panel.confusion.isVisible() and panel.confusion.matrix.tolist() == [[2, 1], [1, 1]]
    panel.confusion.setFocus()
    qtbot.keyClick(panel.confusion, Qt.Key.Key_Right)
    assert panel.confusion.cell_text(0, 1) == plain("1 of 3 negative are predicted as positive (33.3\u2009%)").replace(
        " %", "\u2009%"
    )
    qtbot.keyClick(panel.confusion, Qt.Key.Key_Return)
    assert answer(qtbot, runner, "data_rows", rows(1, 1, 1)).among == (1,)
    window.session.set_sparsity(("fc1",), 0.5)
    panel._on_changed()
    assert panel.browser.predictions is None and panel.confusion.isHidden() and panel.lengths.isVisible()


@pytest.mark.slow
def test_errors_stand_in_the_panel_alone(
    panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot, window: Window
) -> None:
    qtbot.waitUntil(lambda: job(runner, "data") is not None, timeout=3000)
    info = job(runner, "data")
    assert info is not None
    runner[-1].tell(info, Failed("mine.csv has no column 'words'.", "It has: text, label."))
    assert panel._empty.text() == "mine.csv has no column 'words'. It has: text, label."
    assert window.banner.isHidden() and panel._pages.currentIndex() == 0


@pytest.mark.slow
def test_data_that_does_not_fit_the_model_is_shown_with_a_warning(
    panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    loaded(panel, runner, qtbot, ("The data have 3 classes; the model tells 2 apart.", "Use another model."))
    assert panel.misfit.text().endswith("apart. Use another model.") and not panel.misfit.isHidden()


def test_other_data_are_loaded_when_they_are_named(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    loaded(panel, runner, qtbot)
    line = panel.source.editors["data"].line
    line.selectAll()
    qtbot.keyClicks(line, "demo:digits")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert answer(qtbot, runner, "data", Report("data"), (LOOK, ("", ""))).data == "demo:digits"
    assert isinstance(answer(qtbot, runner, "data_rows", rows(0, 1, 1)), DataRowsOptions)


@pytest.mark.slow
def test_a_text_is_copied_and_shown_whole(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    loaded(panel, runner, qtbot)
    table = panel.browser.table
    at = table.samples.index(2, table.samples.columns.index("text"))
    assert table.samples.data(at, Qt.ItemDataRole.ToolTipRole) == "text 2 < &"
    table.setCurrentIndex(at)
    table.handle.copy()
    assert QApplication.clipboard().text().splitlines() == ["sample\tclass\ttext\ttokens", "2\tnegative\ttext 2 < &\t5"]


def test_charts_of_many_classes_show_the_most_frequent(qtbot: QtBot) -> None:
    counts = tuple(range(100, 0, -1))
    summary = DataSummary(
        "many", "image", tuple(map(str, range(100))), (SplitSummary("train", counts),), shape=(1, 8, 8)
    )
    for chart in (ClassChart(), LengthChart()):
        qtbot.addWidget(chart)
        chart.set_summary(summary)
        chart.set_summary(None)
        chart.set_summary(summary)
    shown = ClassChart()
    qtbot.addWidget(shown)
    shown.set_summary(summary)
    assert shown.shown == list(range(24)) and len(shown.table()[1]) == 100


def test_a_field_that_was_emptied_stays_empty(panel: DataPanel, window: Window, qtbot: QtBot) -> None:
    """Only data that become known are offered, and never where somebody types."""
    session, line = window.session, panel.source.editors["data"].line
    figures, other = {"accuracy": 0.5, "loss": 1.0, "samples": 4}, EvaluateOptions(data="other.csv")
    line.clear()
    line.edited.emit()
    session.record_score(session.recipe, session.measured_on, figures, chosen=True)
    session.score_changed.emit()
    assert line.text() == ""
    session.record_score(session.recipe, other, figures, chosen=True)
    assert line.text() == "other.csv"


def test_letters_typed_quickly_are_one_wish(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot) -> None:
    line = panel.source.editors["data"].line
    qtbot.waitUntil(lambda: job(runner, "data") is not None)
    asked = len(runner[-1].waiting)
    line.setFocus()
    line.selectAll()
    qtbot.keyClicks(line, "abcdef", delay=20)
    assert len(runner[-1].waiting) <= asked, "nothing is asked for while somebody types"


@pytest.mark.slow
def test_samples_go_with_the_model(panel: DataPanel, runner: list[FakeRunner], qtbot: QtBot, window: Window) -> None:
    """Their pictures are megabytes, and nobody sees them any more."""
    loaded(panel, runner, qtbot)
    assert panel.browser.table.samples.rows
    window.session.close()
    assert not panel.browser.table.samples.rows and not panel.browser.table.samples._pictures


def test_facts_of_masks_and_of_targets() -> None:
    """Data of tasks without one class a sample are described by size, labels and level of guessing."""
    from espalier.app.features.data.panel import _facts

    part = SplitSummary("test", (6, 4), number=6)
    masks = DataSummary(
        "m", "image", ("0", "1"), (part,), shape=(3, 16, 16), task="segmentation", guessing="mIoU: 20 %"
    )
    assert "6 images, 3 × 16 × 16, task segmentation" in plain(_facts(masks)) and "2 labels" in _facts(masks)
    pairs = DataSummary(
        "p", "text", (), (SplitSummary("test", (), number=5),), task="seq2seq", guessing="Accuracy: 9 %"
    )
    assert "5 texts, task seq2seq" in plain(_facts(pairs))
    sounds = DataSummary("s", "audio", ("rise", "fall"), (SplitSummary("test", (3, 2)),), shape=(16_000,))
    assert "5 sounds, 16000" in plain(_facts(sounds)) and "3 of" not in plain(_facts(sounds))
