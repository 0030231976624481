"""Saves beside jobs: one after another in a thread of the window, the user's before copies for recovery."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from espalier.app.jobs import saver as module
from espalier.app.jobs.saver import Saver
from espalier.model.document.project import Project, Saved, load_project, save_project
from espalier.model.errors import ProjectError
from espalier.model.store.weights import WeightStore
from espalier.passes.jobs.kinds import Done, Failed, JobEvent, JobInfo, SaveJob, Started, Stopped
from tests.model.project_cases import make
from tests.patience import PATIENCE


class Disk:
    """A disk that writes when the test says so, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open = threading.Event()

    def save(self, project: Project, store: WeightStore, path: Path, **more: Any) -> Saved:
        """As save_project, in pieces."""
        self.begun.append(path.name)
        for done in range(1000):
            if self.open.wait(0.02):
                return Saved()
            more["progress"](done, 1000)
        raise ProjectError("Never.", "Wait.")


@pytest.fixture
def heard() -> list[JobEvent]:
    return []


@pytest.fixture
def saver(heard: list[JobEvent]) -> Iterator[Saver]:
    made = Saver(heard.append)
    yield made
    made.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(module, "save_project", made.save)
    return made


def job(name: str, copy: bool = False) -> SaveJob:
    project, store = make()
    return SaveJob(project, store, Path(name), copy=copy)


def submit(saver: Saver, number: int, name: str, copy: bool = False) -> JobInfo:
    info = JobInfo(number, name, job(name, copy))
    saver.submit(info, info.job)  # type: ignore[arg-type]
    return info


def until(condition: Any) -> None:
    """Wait for another thread."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


def test_a_save_that_is_done_holds_no_files(saver: Saver, disk: Disk, heard: list[JobEvent]) -> None:
    """The thread that waits for the next save would hold those of a closed document."""
    disk.open.set()
    info = submit(saver, 1, "one")
    store = weakref.ref(info.job.store)  # type: ignore[union-attr]
    until(lambda: any(isinstance(e.event, Done) for e in heard))
    heard.clear()
    del info
    until(lambda: store() is None)


def test_what_the_user_saves_goes_before_copies(saver: Saver, disk: Disk) -> None:
    copy = submit(saver, 1, "copy", copy=True)
    until(lambda: disk.begun == ["copy"])
    later, own, second = submit(saver, 2, "later", copy=True), submit(saver, 3, "own"), submit(saver, 4, "second")
    until(lambda: copy.state == "stopped" and disk.begun == ["copy", "own"])
    disk.open.set()
    until(lambda: later.state == "done")
    assert disk.begun == ["copy", "own", "second", "later"] and own.state == second.state == "done"


def test_a_save_is_cancelled_waiting_or_under_way(saver: Saver, disk: Disk, heard: list[JobEvent]) -> None:
    first, second = submit(saver, 1, "first"), submit(saver, 2, "second")
    until(lambda: disk.begun == ["first"])
    assert saver.cancel(2) and saver.cancel(1) and not saver.cancel(3)
    until(lambda: first.state == second.state == "stopped")
    assert disk.begun == ["first"] and [type(e.event) for e in heard if e.job is second] == [Stopped]


def test_closing_writes_what_the_user_saved(disk: Disk, heard: list[JobEvent]) -> None:
    saver = Saver(heard.append)
    copy = submit(saver, 1, "copy", copy=True)
    until(lambda: disk.begun == ["copy"])
    own, later = submit(saver, 2, "own"), submit(saver, 3, "later", copy=True)
    disk.open.set()
    saver.close()
    assert own.state == "done" and later.state == "stopped" and copy.state in ("stopped", "done")


def test_errors_are_told_and_the_next_save_is_made(
    saver: Saver, heard: list[JobEvent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = submit(saver, 1, str(tmp_path / "no" / "p.espalier"))
    until(lambda: bad.state == "failed")
    told = heard[-1].event
    assert isinstance(told, Failed) and "could not be written" in told.message and told.hint

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_project", broken)
        submit(saver, 2, "x")
        until(lambda: len(heard) == 4)
    told = heard[-1].event
    assert isinstance(told, Failed) and "RuntimeError" in told.message
    good = tmp_path / "p.espalier"
    project, store = make()
    info = JobInfo(3, "good", SaveJob(project, store.view(), good))
    saver.submit(info, info.job)  # type: ignore[arg-type]
    until(lambda: info.state == "done")
    kinds = [type(e.event) for e in heard if e.job is info]
    assert kinds[0] is Started and kinds[-1] is Done and load_project(good, WeightStore(tmp_path)) == project


def test_a_stopped_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "p.espalier"
    project, store = make()
    save_project(project, store, path)
    before = path.read_bytes()

    class Stop(Exception):
        """As the saver's."""

    def stop(done: int, total: int) -> None:
        if done:
            raise Stop

    with pytest.raises(Stop):
        save_project(project, store, path, progress=stop)
    assert path.read_bytes() == before and [f.name for f in tmp_path.iterdir()] == ["p.espalier"]


def test_a_save_that_was_asked_for_while_another_was_written_replaces_that_one(
    saver: Saver, heard: list[JobEvent], tmp_path: Path
) -> None:
    """Nobody else changed the file; a change by somebody else is still reported."""
    project, store = make()
    path = tmp_path / "a.espalier"
    first = save_project(project, store, path).version
    for number in (1, 2, 3):
        saver.submit(info := JobInfo(number, "Save", SaveJob(project, store, path, over=first)), info.job)  # type: ignore[arg-type]
    until(lambda: sum(isinstance(e.event, Done | Failed) for e in heard) == 3)
    assert all(isinstance(e.event, Done) for e in heard if isinstance(e.event, Done | Failed))
    # One that writes over what somebody else wrote is ours too for those that were asked for meanwhile.
    path.write_bytes(path.read_bytes() + b"x")
    for number, anyway in ((4, True), (5, False)):
        saver.submit(
            info := JobInfo(number, "Save", SaveJob(project, store, path, over=first, anyway=anyway)), info.job
        )  # type: ignore[arg-type]
    until(lambda: sum(isinstance(e.event, Done | Failed) for e in heard) == 5)
    assert all(isinstance(e.event, Done) for e in heard if isinstance(e.event, Done | Failed))
    path.write_bytes(path.read_bytes() + b"x")
    saver.submit(info := JobInfo(6, "Save", SaveJob(project, store, path, over=first)), info.job)  # type: ignore[arg-type]
    until(lambda: any(isinstance(e.event, Failed) for e in heard))
