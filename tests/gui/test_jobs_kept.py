"""What lists keep of jobs that have ended: a line each, and nothing of the model."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QThreadPool
from PySide6.QtWidgets import QLabel, QLayout, QLayoutItem, QProgressBar, QPushButton
from pytestqt.qtbot import QtBot

from espalier.app.features.jobs.panel import JobRow, JobsPanel
from espalier.app.features.jobs.state import MAX_ROWS, series
from espalier.app.session.session import Session
from espalier.app.shell.application import IDLE, make_application
from espalier.app.shell.window import Window
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Location, Tensor, WeightStore
from espalier.passes.base import NoOptions
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    ExportJob,
    Failed,
    Job,
    JobInfo,
    OpenJob,
    OpenResult,
    ReplayJob,
    SaveJob,
    SearchJob,
    Started,
    SweepJob,
    TrialJob,
    without_data,
)
from espalier.passes.search.search import Search
from espalier.passes.sweep.sweep import Sweep
from tests.gui.conftest import FakeRunner, small_graph, small_project

pytestmark = pytest.mark.gui
PLACE, SOURCE, RECIPE = Path("work"), SourceInfo("demo:small", "Small"), Recipe((Step("remove_dropout", NoOptions()),))


def search(graph: Graph) -> Search:
    return Search(cast("Any", None), RECIPE, graph)


MADE: list[Any] = [
    lambda g: ReplayJob(g, RECIPE, {"a": cast("Any", g)}, PLACE, SOURCE, (1, g)),
    lambda g: AnalyseJob(g, RECIPE.steps[0], {"a": cast("Any", g)}, PLACE, SOURCE, g),
    lambda g: SweepJob(Sweep(RECIPE), g, {"a": cast("Any", g)}, PLACE, SOURCE, ((RECIPE.steps, g),), (cast("Any", g),)),
    lambda g: SearchJob(search(g), "x", {"a": cast("Any", g)}, PLACE, SOURCE, graphs=((RECIPE.steps, g),)),
    lambda g: TrialJob(search(g), cast("Any", None), {}, PLACE, {"a": cast("Any", g)}, PLACE, SOURCE),
    lambda g: SaveJob(
        Project(SOURCE, g, RECIPE, g, milestones={1: g}), WeightStore(PLACE), PLACE, placing=cast("Any", g.delta)
    ),
    lambda g: ExportJob(Project(SOURCE, g, RECIPE, g), {"a": cast("Any", g)}, PLACE, "onnx", PLACE),
    lambda g: OpenJob("demo:small", PLACE),
]


def reaches(start: object, wanted: object) -> bool:
    """Whether one value holds another, directly or not."""
    seen, left = {id(start)}, [start]
    while left:
        for held in gc.get_referents(left.pop()):
            if held is wanted:
                return True
            if id(held) not in seen and not isinstance(held, type | ModuleType | FunctionType):
                seen.add(id(held))
                left.append(held)
    return False


@pytest.mark.parametrize("make", MADE)
def test_an_ended_job_holds_no_graph(make: Callable[[Graph], Job]) -> None:
    graph = small_graph()
    job = make(graph)
    left = without_data(job)
    assert type(left) is type(job) and not reaches(left, graph)
    assert series(JobInfo(1, "Run", left)) == series(JobInfo(1, "Run", job)), "it is the same wish as before"


@pytest.mark.slow
def test_listeners_hear_the_whole_job_and_lists_keep_the_rest(opened: Window, runner: list[FakeRunner]) -> None:
    session, heard = opened.session, list[int]()
    session.job_event.connect(lambda e: heard.append(len(e.job.job.graph)))
    session.analyse("Look", RECIPE.steps[0], lambda _: None)
    info = runner[0].waiting[-1]
    runner[0].tell(info, Started())
    runner[0].tell(info, Failed("Too large.", "Buy memory."))
    assert isinstance(info.job, AnalyseJob) and len(heard) == 2 and min(heard) > 0 and not len(info.job.graph)


@pytest.mark.slow
def test_only_a_line_is_left_of_a_job_that_has_ended(opened: Window, runner: list[FakeRunner]) -> None:
    panel = opened.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    for number in range(MAX_ROWS + 5):
        opened.session.submit(f"Time {number}", OpenJob("demo:small", PLACE), lambda _: None)
        info = runner[0].waiting[-1]
        runner[0].tell(info, Started())
        row = panel._rows[info.id]
        assert row.findChildren(QPushButton) and row.findChildren(QProgressBar)
        runner[0].tell(info, Done(None) if number else Failed("Too large.", "Buy memory."))
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        assert not row.findChildren(QPushButton) and not row.findChildren(QProgressBar)
        assert len(row.findChildren(QLabel)) == 2 + (not number), "title, status, and what went wrong"
        row.refresh(time.monotonic())
    assert len(panel.findChildren(JobRow)) == len(panel._rows) == MAX_ROWS


@pytest.mark.slow
def test_no_item_of_a_deleted_widget_is_held(opened: Window, runner: list[FakeRunner]) -> None:
    """PySide would take the next widget at its address for that item, and end the process."""

    def items() -> int:
        gc.collect()
        return sum(isinstance(o, QLayoutItem) and not isinstance(o, QLayout) for o in gc.get_objects())

    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    before = items()
    info = JobInfo(1, "Run", OpenJob("demo:small", PLACE))
    row = JobRow(opened.session, info)
    info.note(Done(None), time.monotonic())
    row.refresh(time.monotonic())
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert items() == before
    row.deleteLater()


def is_open(path: Path) -> bool:
    return any(p.exists() and p.resolve() == path for p in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux tells what is open")
def test_no_file_of_a_closed_document_stays_open(session: Session, runner: list[FakeRunner], tmp_path: Path) -> None:
    """A panel may keep a way to read its tensors; the folder that they lie in is deleted meanwhile."""
    made = WeightStore(tmp_path.resolve())
    key = made.hold(Tensor(np.arange(4, dtype=np.float32), "float32"))
    places = made.flush("tensors")
    made.close()
    for end in (session.close, lambda: open_small(session, runner[0], {})):
        open_small(session, runner[0], places)
        store = session.open_document.store
        assert store.get(key).array.sum() == 6 and is_open(places[key].path)
        end()
        assert not is_open(places[key].path)
        assert store.get(key).array.sum() == 6
        store.close()


def open_small(session: Session, runner: FakeRunner, places: dict[str, Location]) -> None:
    session.open("demo:small")
    runner.finish(OpenResult(small_project(), places, (), {}))


def pooled() -> int:
    return sum(p.read_text().startswith("Thread (pooled") for p in Path("/proc/self/task").glob("*/comm") if p.exists())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux tells the names of threads")
def test_pooled_threads_without_work_end(qtbot: QtBot) -> None:
    """Each holds a descriptor too."""
    make_application()
    QThreadPool.globalInstance().start(lambda: None)
    qtbot.waitUntil(lambda: pooled() > 0)
    qtbot.waitUntil(lambda: pooled() == 0, timeout=10 * IDLE)
