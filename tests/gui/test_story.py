"""The whole story in the real window with the real worker: open, edit, prune, measure, undo, save, open again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.session.edit_journal import read
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.window import Window
from espalier.app.widgets.style import Appearance
from espalier.model.document.project import load_project
from espalier.model.document.recipe import Step
from espalier.model.formats.integer import Integer
from espalier.model.store.weights import WeightStore
from espalier.passes.transform.finetune import FinetuneOptions
from tests.patience import MILLISECONDS

pytestmark = [pytest.mark.gui, pytest.mark.slow]
PATIENCE = MILLISECONDS


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Window]:
    """A real window over a real session, with settings of its own."""
    settings = Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    window = Window(Session(), settings, Appearance(qapp, "light"))
    window.live.enabled = False  # the story measures when it says so
    window.resize(1400, 900)
    window.show()
    yield window
    window.session.close()
    window.close()
    window.session.shutdown()
    window.deleteLater()


def idle(qtbot: QtBot, session: Session) -> None:
    """Wait until no job runs."""
    qtbot.waitUntil(lambda: not session.jobs, timeout=PATIENCE)


def opened(qtbot: QtBot, session: Session, spec: str) -> None:
    """Open and wait."""
    with qtbot.waitSignal(session.opened, timeout=PATIENCE):
        session.open(spec)


@pytest.mark.parametrize("demo", ["demo:reviews", "demo:digits"])
def test_open_edit_prune_measure_undo_redo_save_open(qtbot: QtBot, window: Window, demo: str, tmp_path: Path) -> None:
    session, wrong = window.session, []
    session.problem.connect(wrong.append)
    opened(qtbot, session, demo)
    assert session.document is not None
    layers = [n.id for n in session.document.graph if n.op in ("linear", "conv2d")][:2]
    window.canvas.select(layers)
    qtbot.waitUntil(lambda: set(session.selection) == set(layers), timeout=2000)

    for port in ("weight", "data_in"):
        session.set_format(session.selection, port, Integer(8, 4))
    session.set_sparsity(session.selection, 0.3)
    idle(qtbot, session)
    session.evaluate()
    idle(qtbot, session)
    score, baseline = session.score, session.baseline
    assert score.accuracy is not None and baseline.accuracy is not None
    assert score.accuracy > 0.5 and score.size_bytes < baseline.size_bytes and score.bitops < baseline.bitops
    elements = [session.document.graph.nodes[n].ports["weight"].elements({}) for n in layers]
    assert [session.document.graph.nodes[n].sparsity["weight"].zeros for n in layers] == [
        round(0.3 * e) for e in elements
    ]

    present, base = session.document.present, session.document.project.base
    while session.document.undo_label:
        session.undo()
    assert session.document.graph == base and session.score == baseline and not session.document.recipe.steps
    while session.document.redo_label:
        session.redo()
    assert session.document.present == present and session.score == score

    path = tmp_path / "story.espalier"
    with qtbot.waitSignal(session.saved, timeout=PATIENCE):
        session.save_as(path)
    assert not session.document.dirty
    opened(qtbot, session, str(path))
    assert session.document.present == present
    assert session.score == score and session.baseline == baseline
    session.evaluate()
    idle(qtbot, session)
    assert session.score == score
    assert wrong == []


def test_a_killed_worker_leaves_the_document_and_the_next_job_works(qtbot: QtBot, window: Window) -> None:
    import os
    import signal

    session, told = window.session, []
    session.problem.connect(told.append)
    opened(qtbot, session, "demo:digits")
    assert session.document is not None
    present = session.document.present
    layer = [n.id for n in session.document.graph if n.op == "linear"][:1]
    process = session._runner.worker_pid
    assert process is not None
    os.kill(process, signal.SIGKILL)
    session.evaluate()
    idle(qtbot, session)
    assert session.document.present is present
    session.set_sparsity(layer, 0.5)
    idle(qtbot, session)
    assert session.document.graph.nodes[layer[0]].sparsity["weight"].ratio == 0.5
    assert len(told) <= 1


def test_a_save_waits_for_no_job(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    """Nor does the journal; what the job gives afterwards is unsaved."""
    session, path = window.session, tmp_path / "p.espalier"
    opened(qtbot, session, "demo:digits")
    wish = FinetuneOptions(data=session.open_document.project.source.data or "", epochs=1000)
    session.set_recipe(session.recipe.append(Step("finetune", wish)), "Train")
    qtbot.waitUntil(lambda: any(j.state == "running" and j.metrics for j in session.jobs), timeout=PATIENCE)
    layers = [n.id for n in session.open_document.graph if n.op == "linear"][:1]
    session.set_format(layers, "weight", Integer(4, 2))
    assert session.pending_edits and any(j.state == "running" for j in session.jobs)
    begin = time.monotonic()
    with qtbot.waitSignal(session.saved, timeout=PATIENCE):
        session.save_as(path)
    assert any(j.state == "running" for j in session.jobs), "the save waited for the training"
    assert (
        time.monotonic() - begin < 60
        and load_project(path, WeightStore(tmp_path)).base == session.open_document.project.base
    )
    qtbot.waitUntil(lambda: (held := read(window.recovery.journal.path)) is not None and len(held.waiting) == 2)
    held = read(window.recovery.journal.path)
    assert held and [s.pass_name for s in held.recipe.steps] == ["finetune", "quantize"]
