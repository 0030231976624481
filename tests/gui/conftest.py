"""What tests of the window share: a session whose jobs are answered by the test, and a small model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.session import session as session_module
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.window import Window
from espalier.app.theme import LIGHT
from espalier.app.widgets.style import Appearance, sheet
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.sources.info import SourceInfo
from espalier.passes.jobs.kinds import (
    Continued,
    Done,
    Event,
    Failed,
    Job,
    JobEvent,
    JobInfo,
    OpenJob,
    OpenResult,
    Paused,
    Started,
    Stopped,
    Yielded,
)

Listener = Callable[[JobEvent], None]


class FakeRunner:
    """Takes jobs and answers when the test says so; no thread, no process."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.waiting: list[JobInfo] = []
        self.count = 0
        self.kept: list[int] = []
        self.yielding: set[int] = set()
        self.parked: dict[int, JobInfo] = {}

    def submit(self, title: str, job: Job, *, urgent: bool = False) -> JobInfo:
        """Queue a job."""
        self.count += 1
        info = JobInfo(self.count, title, job)
        self.waiting.append(info)
        return info

    def tell(self, info: JobInfo, event: Event) -> None:
        """Send an event as the real runner does."""
        if isinstance(event, Done) and info.id in self.yielding:
            event = Yielded(event.result)
            self.parked[info.id] = info
            self.waiting.remove(info)
        self.yielding.discard(info.id) if isinstance(event, Yielded | Done | Failed | Stopped) else None
        match event:
            case Done() | Failed() | Stopped():
                info.state, info.finished = type(event).__name__.lower(), info.started + 1.5
                self.waiting.remove(info) if info.id not in self.parked else self.parked.pop(info.id)
            case _:
                info.note(event, time.monotonic())
        self._listener(JobEvent(info, event))

    def finish(self, result: Any) -> JobInfo:
        """Let the oldest job end with a result."""
        info = self.waiting[0]
        self.tell(info, Started())
        self.tell(info, Done(result))
        return info

    def cancel(self, number: int) -> None:
        """Stop a job at once."""
        self.tell(next(j for j in (*self.waiting, *self.parked.values()) if j.id == number), Stopped())

    def stop_and_keep(self, number: int) -> None:
        """Remember that a job was asked to end with what it has."""
        self.kept.append(number)

    def pause(self, number: int) -> None:
        """The job waits at once; one that has not begun leaves the queue."""
        info = next(j for j in self.waiting if j.id == number)
        if info.state == "waiting":
            self.waiting.remove(info)
            self.parked[number] = info
        self.tell(info, Paused())

    def resume(self, number: int) -> None:
        """The job goes on at once; one that is not with the worker queues up."""
        if parked := self.parked.pop(number, None):
            parked.state = "waiting"
            self.waiting.append(parked)
        else:
            self.tell(next(j for j in self.waiting if j.id == number), Continued())

    def give_way(self, number: int) -> bool:
        """Remember that a job was asked to make room: its next Done is Yielded."""
        if next((j for j in self.waiting if j.state != "waiting" and j.id == number), None) is None:
            return False
        self.kept.append(number)
        self.yielding.add(number)
        return True

    def blocks(self, number: int) -> bool:
        """One job runs at a time: any other waits for it."""
        return any(j.state == "waiting" for j in self.waiting if j.id != number)

    def drop(self, number: int) -> None:
        """Forget a job of which nothing is left."""
        self.parked.pop(number)

    def close(self) -> None:
        """Nothing runs."""


def small_graph() -> Graph:
    """x → fc1 → dropout → fc2 → output, without weights in memory."""
    flat, wide = TensorMeta(("batch", 8), "float32"), TensorMeta(("batch", 4), "float32")
    linear = {"data_in": flat, "weight": TensorMeta((8, 8), "float32"), "data_out": flat}
    last = {"data_in": flat, "weight": TensorMeta((4, 8), "float32"), "data_out": wide}
    layer, drop = {"class": "torch.nn.modules.linear.Linear"}, {"class": "torch.nn.modules.dropout.Dropout", "p": 0.1}
    nodes = [
        Node("x", "placeholder", "placeholder", "x", ports={"data_out": flat}),
        Node("fc1", "linear", "call_module", "fc1", (Ref("x"),), ports=linear, weights={"weight": "fc1.weight"},
             attrs=layer, module_path="fc1"),
        Node("drop", "dropout", "call_module", "drop", (Ref("fc1"),), ports={"data_in": flat, "data_out": flat},
             attrs=drop, module_path="drop"),
        Node("fc2", "linear", "call_module", "fc2", (Ref("drop"),), ports=last, weights={"weight": "fc2.weight"},
             attrs=layer, module_path="fc2"),
        Node("output", "output", "output", "output", (Ref("fc2"),)),
    ]  # fmt: skip
    weights = {"fc1.weight": Weight(None, (8, 8), "float32"), "fc2.weight": Weight(None, (4, 8), "float32")}
    return Graph({n.id: n for n in nodes}, weights, ("output",), "tensor", {"batch": 2})


def small_project(data: str | None = None) -> Project:
    """A project on the small graph."""
    graph = small_graph()
    return Project(SourceInfo("demo:small", "Small", ("x",), data=data), graph, Recipe(), graph)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> list[FakeRunner]:
    """The fake runners that sessions made, oldest first."""
    made: list[FakeRunner] = []

    def make(listener: Listener, _: object) -> FakeRunner:
        made.append(FakeRunner(listener))
        return made[-1]

    monkeypatch.setattr(session_module, "JobRouter", make)
    return made


@pytest.fixture
def session(qtbot: QtBot, runner: list[FakeRunner]) -> Iterator[Session]:
    """A session without a worker."""
    made = Session()
    yield made
    made.shutdown()
    made.deleteLater()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings in a file of the test's own."""
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


@pytest.fixture(scope="session")
def worn() -> list[Appearance]:
    """What the application wears, newest last."""
    return []


@pytest.fixture
def appearance(qapp: QApplication, worn: list[Appearance]) -> Appearance:
    """One for all windows, as long as it is light and nothing else was put on: that takes as long as a panel."""
    if not worn or worn[-1].mode != "light" or qapp.styleSheet() != sheet(LIGHT):
        worn.append(Appearance(qapp, "light"))
    return worn[-1]


@pytest.fixture
def window(qtbot: QtBot, appearance: Appearance, runner: list[FakeRunner], settings: Settings) -> Iterator[Window]:
    """The window, panels_built and shown, with no model open."""
    made = Window(Session(), settings, appearance)
    made.resize(1200, 800)
    made.show()
    made.build_panels()
    yield made
    made.close_now()
    made.session.deleteLater()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def opened(window: Window, runner: list[FakeRunner]) -> Window:
    """The window with the small model."""
    open_small(window, runner)
    return window


def open_small(window: Window, runner: list[FakeRunner], project: Project | None = None) -> None:
    """Open the small model as the worker would."""
    window.begin_opening("demo:small")
    assert isinstance(runner[-1].waiting[0].job, OpenJob)
    runner[-1].finish(OpenResult(project or small_project(), {}, (), {}))
