"""The tab How it works: questions with figures as they come, bits and tiles to try, pictures as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.kernels.answer_pictures import BitsView, OnlineView, TilesView
from espalier.app.features.kernels.charts.answers.picture import Picture
from espalier.app.features.kernels.explanations import KernelExplanations
from espalier.app.features.kernels.state.answers import MEMBER, StoredFacts, from_bytes, kernel_answers_of, to_bytes
from espalier.app.features.kernels.state.runs import kernel_runs_of
from espalier.app.session.session import Session
from espalier.app.shell.window import Window
from espalier.app.theme import DARK, LIGHT
from espalier.kernels.bench.answers.measured_data import Fact, MeasuredData, merge_measurements
from espalier.kernels.bench.answers.questions import QUESTIONS
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import Lab
from espalier.model.errors import OptionsError
from espalier.passes.base import Report
from espalier.passes.jobs.kernel import AnswerJob, KernelsJob, LabJob
from espalier.passes.jobs.kinds import AnalyseJob, Done, Failed, PartialResult, Progress, Started
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.kernels.kernels_lab import LAB

pytestmark = pytest.mark.gui

NO_CUDA = Lab((), {"cuda": "no CUDA device"}, {"cpu": {"name": "a processor"}})


def timed(kernel: str, version: str, shape: dict[str, int], seconds: float, **more: Any) -> Row:
    """A row with a time."""
    return replace(Row(kernel, version, "cpu", "float32", shape, seconds, least=seconds, bytes=4 << 20,
                       bytes_least=1 << 20, flops=1 << 22), **more)  # fmt: skip


def everything() -> list[object]:
    """What all questions would find."""
    heads = {"b": 1, "h": 4, "d": 64, "causal": 0, "mask": 0}
    found: list[object] = [Ceilings("cpu", 10.0, {"float32": 0.1})]
    for version, seconds in (("torch", 1e-3), ("naive", 4e-3)):
        found.append(timed("softmax", version, {"m": 64, "n": 32}, seconds))
        found += [timed("attention", version, heads | {"s": s}, seconds * s / 64) for s in (64, 128, 256)]
        found += [Fact(f"attention memory {version}", s * s * 16, "bytes", s) for s in (64, 128, 256)]
    for name, first, later in (("small layer", 30.0, 8e-5), ("large chain", 4.0, 1e-3)):
        found.append(timed(name, "eager", {"rows": 1, "columns": 32}, 4e-3 if "large" in name else 4e-6, first=1e-3))
        found.append(timed(name, "captured", {"rows": 1, "columns": 32}, 9e-5, first=0.2))
        found.append(timed(name, "compiled", {"rows": 1, "columns": 32}, later, first=first))
    found += [
        timed("copy", v, {"rows": 64, "columns": 64}, s) for v, s in (("along rows", 1e-3), ("down columns", 3e-3))
    ]
    found += [timed("mxint8_dequantize", v, {"rows": 8, "columns": 32}, 1e-3) for v in ("torch", "numba")]
    return [*found, Fact("weight in float", 3200, "bytes", 32), Fact("weight packed", 825, "bytes", 8)]


@pytest.fixture
def page(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[KernelExplanations]:
    """The tab alone, shown, with the lab listed: there is no CUDA device."""
    made = KernelExplanations(session)
    qtbot.addWidget(made)
    made.resize(1200, 300)
    made.show()
    assert isinstance(runner[-1].waiting[0].job, LabJob)
    runner[-1].finish(NO_CUDA)
    return made


def settle(page: KernelExplanations, qtbot: QtBot) -> None:
    """Until what came is shown."""
    qtbot.waitUntil(lambda: not page.state._wait.isActive())


def tell_all(page: KernelExplanations, runner: FakeRunner, qtbot: QtBot) -> None:
    """Measure the chosen question, and let the worker find all that there is."""
    page.measure_button.click()
    info = runner.waiting[0]
    runner.tell(info, Started())
    for part in everything():
        runner.tell(info, PartialResult(part))
    runner.tell(info, Done(None))
    settle(page, qtbot)


def test_nothing_measured_says_so(page: KernelExplanations) -> None:
    for asked in QUESTIONS:
        page.choose(asked.key)
        assert page.title.text() == asked.title and "not measured yet" in page.figures.text()
        assert all(link.url in page.links.text() for link in asked.links)
        assert page._views.currentWidget() is page.shown[asked.key]


def test_figures_come_while_they_are_measured(page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot) -> None:
    page.choose("softmax")
    page.measure_button.click()
    info = runner[-1].waiting[0]
    assert info.job == AnswerJob("softmax", "cpu") and "Queued" in page.status.text()
    assert not page.measure_button.isEnabled() and page.stop_button.isVisible()
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Progress(1, 3, "softmax naive"))
    qtbot.waitUntil(lambda: page.status.text() == "Softmax naive …")
    runner[-1].tell(info, PartialResult(timed("softmax", "naive", {"m": 64, "n": 32}, 4e-3)))
    qtbot.waitUntil(lambda: "4\u2009ms" in page.figures.text())
    page.stop_button.click()
    settle(page, qtbot)
    assert "Stopped" in page.status.text() and page.measure_button.isEnabled() and not page.stop_button.isVisible()
    assert "4\u2009ms" in page.figures.text()


def test_every_question_with_figures(page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot) -> None:
    tell_all(page, runner[-1], qtbot)
    expected = {
        "compile": "never", "softmax": "4\u2009×", "attention": "256 tokens", "tiles": "3\u2009×", "mxint8": "numba",
        "memory": "74.2", "roofline": "bound by bandwidth",
    }  # fmt: skip
    for key, words in expected.items():
        page.choose(key)
        assert words in page.figures.text(), key
        page.grab()
        assert page.shown[key].figures.rows.rowCount() > 0


def test_rows_of_runs_are_reused(page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot) -> None:
    kernel_runs_of(page._session).start(Request(("softmax",)))
    info = runner[-1].waiting[0]
    assert isinstance(info.job, KernelsJob)
    runner[-1].tell(info, Started())
    runner[-1].tell(info, PartialResult(Results({"device": "cpu"}, "2026-11-22")))
    for version in ("torch", "naive"):
        runner[-1].tell(info, PartialResult(timed("softmax", version, {"m": 64, "n": 32}, 2e-3)))
    runner[-1].tell(info, Done(None))
    page.choose("softmax")
    qtbot.waitUntil(lambda: "2\u2009ms" in page.figures.text())


def test_a_device_that_is_not_here_says_why(page: KernelExplanations, runner: list[FakeRunner]) -> None:
    assert page.device.itemData(1, Qt.ItemDataRole.ToolTipRole) == "no CUDA device"
    with pytest.raises(OptionsError, match="no CUDA device"):
        page.state.start("softmax", "cuda")


def test_errors_are_told_and_can_be_tried_again(page: KernelExplanations, runner: list[FakeRunner]) -> None:
    page.measure()
    page.measure()  # one at a time
    assert len(runner[-1].waiting) == 1
    with pytest.raises(OptionsError, match="already"):
        page.state.start("softmax", "cpu")
    runner[-1].tell(runner[-1].waiting[0], Failed("The worker died.", "Try again."))
    assert page.error.isVisible() and "The worker died. Try again." in page.error.text()
    page.measure()
    assert not page.error.isVisible()


def test_keys(page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot) -> None:
    qtbot.focus(page.list)
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    assert page.question.key == "softmax"
    QTest.keyClick(page.list, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert runner[-1].waiting[0].job == AnswerJob("softmax", "cpu")


def test_copying_figures(page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot) -> None:
    tell_all(page, runner[-1], qtbot)
    page.choose("memory")
    page.copy()
    text = QApplication.clipboard().text()
    assert text.startswith("figure\tvalue\t") and "MXINT8 in blocks of 32, ideal" in text


def test_the_source_is_that_of_our_files(page: KernelExplanations) -> None:
    page.choose("mxint8")
    page.shown["mxint8"].pages.tabs.setCurrentIndex(2)
    text = page.shown["mxint8"].source.text
    assert text is not None and "dont_need_abs" in text.toPlainText()
    assert not page.shown["mxint8"].save.isVisible()


# -- bits, tiles, the online softmax


def bits_of(page: KernelExplanations) -> BitsView:
    """The picture of bits."""
    page.choose("mxint8")
    view = page.shown["mxint8"].view
    assert isinstance(view, BitsView)
    return view


def typed(field: Any, text: str) -> None:
    """Write into a field as a person does."""
    field.selectAll()
    QTest.keyClicks(field, text)


def test_a_value_and_its_bytes(page: KernelExplanations) -> None:
    view = bits_of(page)
    typed(view.value, "0.5")
    assert (view.code.get(), view.stored.get()) == (64, 126) and view.picture.result.result == 0.5
    typed(view.code, "35")
    assert view.value.get() == 35 / 64 / 2 and not view.picture.result.dont_need_abs
    typed(view.stored, "300")
    assert view.error.isVisible() and "out of range" in view.error.text() and view.picture.result.stored != 300
    typed(view.stored, "255")
    assert not view.error.isVisible() and view.picture.result.stored == 255
    typed(view.value, "nan")
    assert view.picture.result.stored == 255


def test_edge_cases_and_their_words(page: KernelExplanations) -> None:
    view = bits_of(page)
    for name, code, stored in view.edges.values:
        view.edges.put((name, code, stored))
        view.edges.edited.emit()
        assert (view.picture.result.code, view.picture.result.stored) == (code, stored)
        view.grab()
        assert (view.picture.result.why_not == "") == view.picture.result.agrees


def test_a_click_turns_a_bit_over(page: KernelExplanations) -> None:
    view = bits_of(page)
    view.take(0, 127)
    view.grab()
    box = next(b for b, bit, code in view.picture._cells if code and bit == 6)
    QTest.mouseClick(view.picture, Qt.MouseButton.LeftButton, pos=box.center().toPoint())
    assert view.code.get() == 64 and view.picture.result.result == 1.0
    box = next(b for b, bit, code in view.picture._cells if not code and bit == 0)
    QTest.mouseClick(view.picture, Qt.MouseButton.LeftButton, pos=box.center().toPoint())
    assert view.stored.get() == 126 and view.picture.result.result == 0.5


def test_tiles_follow_their_sizes(page: KernelExplanations) -> None:
    page.choose("tiles")
    view = page.shown["tiles"].view
    assert isinstance(view, TilesView)
    typed(view.fields["rows"], "20")
    assert view.picture.tiling.rows == 20 and view.picture.tiling.grid == (3, 3)
    typed(view.fields["thread_rows"], "99")
    assert view.error.isVisible() and "do not fit" in view.error.text() and view.picture.tiling.thread_rows != 99
    typed(view.fields["thread_rows"], "2")
    view.order.put("rows")
    view.order.edited.emit()
    assert not view.error.isVisible() and view.picture.tiling.order == "rows"
    view.grab()
    place = view.picture._tensor.bottomRight().toPoint() - QPoint(2, 2)
    QTest.mouseClick(view.picture, Qt.MouseButton.LeftButton, pos=place)
    assert view.picture.tile == 8
    place = view.picture._enlarged.topLeft().toPoint() + QPoint(3, 3)
    view.picture.show_tiling(view.tiling, 8, 5)
    QTest.mouseClick(view.picture, Qt.MouseButton.LeftButton, pos=place)
    assert view.picture.reader == 0 and view.picture.tile == 8
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Down):
        QTest.keyClick(view.picture, key)
    assert view.picture.reader == 1 and view.picture.tile == 7
    QTest.keyClick(view.picture, Qt.Key.Key_A)
    view.grab()


def test_large_and_odd_tilings_are_drawn(page: KernelExplanations) -> None:
    page.choose("tiles")
    view = page.shown["tiles"].view
    for rows, columns, down, across in ((512, 512, 1, 1), (1, 1, 128, 128), (512, 3, 128, 64)):
        for name, value in (("rows", rows), ("columns", columns), ("thread_rows", 1), ("thread_columns", 1),
                            ("tile_rows", down), ("tile_columns", across)):  # fmt: skip
            view.fields[name].put(value)
        view._edited()
        assert view.picture.tiling.rows == rows and not view.error.isVisible()
        view.grab()


def test_blocks_of_the_online_softmax(page: KernelExplanations) -> None:
    page.choose("attention")
    view = page.shown["attention"].view
    assert isinstance(view, OnlineView)
    typed(view.block, "3")
    assert view.picture.block == 3
    typed(view.block, "0")
    assert view.error.isVisible() and view.picture.block == 3
    view.grab()


# -- files


@pytest.mark.parametrize("ending", [".png", ".svg", ".csv"])
def test_pictures_are_written(
    page: KernelExplanations, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path, ending: str
) -> None:
    tell_all(page, runner[-1], qtbot)
    for asked in QUESTIONS:
        page.choose(asked.key)
        file = tmp_path / f"{asked.key}{ending}"
        with qtbot.waitSignal(page.save_wanted) as heard:
            page.shown[asked.key].save.click()
        what, title, name = heard.args
        assert name == f"{asked.key}.png" and title
        what.export(file)
        text = file.read_bytes()
        assert text.startswith({".png": b"\x89PNG", ".svg": b"<?xml"}.get(ending, b"")) and len(text) > 40
        if ending == ".csv":
            assert len(text.splitlines()) > 1


def test_pictures_follow_the_theme_and_files_are_light(page: KernelExplanations, tmp_path: Path) -> None:
    page.choose("softmax")
    picture = page.shown["softmax"].view.picture
    assert isinstance(picture, Picture)
    picture.set_theme(DARK)
    dark = picture.grab().toImage()
    picture.export(tmp_path / "a.svg")
    assert picture.look is DARK and LIGHT.panel.lower() in (tmp_path / "a.svg").read_text().lower()
    picture.set_theme(LIGHT)
    assert picture.grab().toImage() != dark


# -- the project


def test_what_is_kept_is_read_again() -> None:
    known = merge_measurements("cpu", everything())
    kept = from_bytes(
        to_bytes({"cpu": StoredFacts("A processor", known), "cuda": StoredFacts("", MeasuredData("cuda"))})
    )
    assert set(kept) == {"cpu"} and kept["cpu"].machine == "A processor"
    again = kept["cpu"].measured
    assert again.facts == known.facts and again.ceilings == known.ceilings
    assert [r.key for r in again.rows] == [r.key for r in known.rows]


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"version":9}', b'{"version":1,"devices":{"cpu":{}}}',
                                 b'{"version":1,"devices":{"cpu":{"results":[],"facts":[]}}}'])  # fmt: skip
def test_damaged_answers_are_said(raw: bytes) -> None:
    with pytest.raises(OptionsError) as caught:
        from_bytes(raw)
    assert caught.value.hint


def test_memory_of_the_open_model(opened: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    session = opened.session
    held = kernel_answers_of(session)
    held.start("memory", "cpu")
    jobs = [i.job for i in runner[-1].waiting]
    assert AnswerJob("memory", "cpu") in jobs
    while runner[-1].waiting:
        info = runner[-1].waiting[0]
        if isinstance(info.job, AnswerJob):
            runner[-1].tell(info, Started())
            runner[-1].tell(info, PartialResult(Fact("weight in float", 3200, "bytes", 32)))
            runner[-1].tell(info, Done(None))
        elif isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "memory":
            rows = ({"line": "float: biases", "kind": "float", "bytes": 48, "float_bytes": 48, "saving": 0.0},)
            runner[-1].finish(Report("memory", rows, {}))
        else:
            runner[-1].tell(info, Failed("not now"))
    known = held.measured("cpu")
    assert known.project[0]["line"] == "float: biases" and known.project_name == "demo:small"
    assert held.measured("cuda").project == ()
    assert session.document and json.loads(session.document.project.extras[MEMBER])["version"] == 1
    page = KernelExplanations(session)
    qtbot.addWidget(page)
    page.resize(1200, 300)
    page.show()
    page.choose("memory")
    assert "demo:small: float: biases" in page.figures.text()
    page.grab()


def test_answers_come_with_their_project(window: Window, runner: list[FakeRunner]) -> None:
    from tests.gui.conftest import small_project

    held = kernel_answers_of(window.session)
    kept = to_bytes({"cpu": StoredFacts("", merge_measurements("cpu", everything()))})
    open_small(window, runner, replace(small_project(), extras={MEMBER: kept}))
    assert held.measured("cpu").fact("weight packed", 8) and held.error is None
    window.session.close()
    open_small(window, runner, replace(small_project(), extras={MEMBER: b"{}"}))
    assert held.error is not None and "cannot be read" in held.error.message


def test_answers_of_another_machine_are_not_shown_as_measured_here(window: Window, runner: list[FakeRunner]) -> None:
    from tests.gui.conftest import small_project

    held, known = kernel_answers_of(window.session), merge_measurements("cpu", everything())
    theirs = replace(small_project(), extras={MEMBER: to_bytes({"cpu": StoredFacts("Another one", known)})})
    open_small(window, runner, theirs)
    held.runs._on_lab(LAB)  # of "A processor"
    assert not held.measured("cpu").facts and "Another one" in held.status
    held.start("mxint8", "cpu")
    while runner[-1].waiting:
        info = runner[-1].waiting[0]
        if isinstance(info.job, AnswerJob):
            runner[-1].tell(info, Started())
            runner[-1].tell(info, PartialResult(Fact("weight in float", 3200, "bytes", 32)))
            runner[-1].tell(info, Done(None))
        else:
            runner[-1].tell(info, Failed("not now"))
    assert window.session.document and held.status == ""
    kept = from_bytes(window.session.document.project.extras[MEMBER])["cpu"]
    assert kept.machine == "A processor" and len(kept.measured.facts) == 1  # theirs are not called ours


def test_the_tab_is_reached_by_its_command(window: Window, runner: list[FakeRunner]) -> None:
    window.actions_table.run("kernels_explain")
    page = window.docks.panels["kernels"].pages["How it works"]  # type: ignore[attr-defined]
    assert isinstance(page, KernelExplanations) and page.isVisible() and page.list.count() == len(QUESTIONS)


def test_pictures_are_made_before_they_are_asked_for(page: KernelExplanations, qtbot: QtBot) -> None:
    first = page.question.key
    assert len(page.shown) < len(QUESTIONS)
    qtbot.waitUntil(lambda: len(page.shown) == len(QUESTIONS))
    assert page.question.key == first and page._views.currentWidget() is page.shown[first]
    qtbot.waitUntil(lambda: not page._ahead.isActive())
    page.hide()
    page.show()
    page.hide()
    assert not page._ahead.isActive()
