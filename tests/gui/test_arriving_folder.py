"""What documents hold: a folder that is about to be needed stays, a closed one's files are let go."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from espalier.app.session.session import Session
from espalier.model.store.weights import Tensor
from espalier.passes.jobs.kinds import OpenResult, SaveJob, Stopped
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, small_project
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


def test_jobs_that_end_while_a_document_arrives(qtbot: PatientBot, session: Session, runner: list[FakeRunner]) -> None:
    session.open("demo:small")
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    before = session.open_document.store.folder
    session.open("demo:small")
    session.evaluate(EvaluateOptions(data="demo:digits"))  # it waits, and is stopped when the other document is there
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    now = session.open_document.store.folder
    qtbot.waitUntil(lambda: not before.exists())
    qtbot.waitUntil(lambda: not any(t.name == "espalier-clearing" for t in threading.enumerate()))
    assert now != before and now.is_dir()


def test_a_save_that_is_done_holds_no_files(session: Session, runner: list[FakeRunner], tmp_path: Path) -> None:
    """The list of jobs keeps it for long, whatever is open by then."""
    session.open("demo:small")
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    key = session.open_document.store.hold(Tensor(np.ones(3, np.float32), "float32"))
    info = session.save_as(tmp_path / "a.espalier", copy=True)
    assert isinstance(info.job, SaveJob) and key in info.job.store
    runner[-1].tell(info, Stopped())
    assert isinstance(info.job, SaveJob) and key not in info.job.store and key in session.open_document.store
