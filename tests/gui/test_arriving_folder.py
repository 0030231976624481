"""The working folder of a document that is about to arrive is nobody's yet, and stays."""

from __future__ import annotations

import threading

import pytest

from app.session import Session
from passes.analysis.evaluate import EvaluateOptions
from passes.jobs import OpenResult
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
