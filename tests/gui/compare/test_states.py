"""The states that the panel Compare offers: pins, files, trials, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.compare.actions import is_shown
from espalier.app.features.compare.state.choices import choices_of
from espalier.app.features.compare.state.pins import MEMBER, pin, pins_of
from espalier.app.features.compare.state_box import UNPIN
from espalier.app.features.log.panel import LogPanel
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.trust import Origin
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import (
    Done,
    Failed,
    OpenJob,
    OpenResult,
    ReplayJob,
    ReplayResult,
)
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.record import Record, dump, member_of
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial
from tests.gui.compare.steps import choice, finish, job_of, shown
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui

INT8, INT4 = parse_format("int8"), parse_format("int4")


def test_now_follows_the_document(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    edited.session.set_format(["fc2"], "weight", INT4)
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    rows = {(r["node"], r["what"]): r["B"] for r in panel.table.rows.shown}
    assert rows["fc2", "weight format"] == "int4 channel"
    edited.session.undo()
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    assert ("fc2", "weight format") not in {(r["node"], r["what"]) for r in panel.table.rows.shown}


def test_a_pinned_state_is_kept_by_the_project(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    recipe = edited.session.recipe
    panel.pin("  both\nsteps ")
    document = edited.session.open_document
    assert MEMBER in document.project.extras and document.dirty
    assert [(p.name, p.recipe) for p in pins_of(document)] == [("both steps", recipe)]
    edited.session.undo()
    panel.comparing.choose("a", choice(edited, "pin", "both steps"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    assert ("drop", "added") in {(r["node"], r["what"]) for r in panel.table.rows.shown}
    box = panel.selectors.boxes["a"]
    box.activated.emit(box.findText(UNPIN))
    assert pins_of(document) == () and MEMBER not in document.project.extras
    assert box.currentText().startswith("Opened") and box.findText(UNPIN) < 0


def test_pins_that_cannot_be_read_are_left_out(edited: Window) -> None:
    document = edited.session.open_document
    for data in (b"", b"[1]", b'{"pins": 3}', b'{"pins": [{"name": 1}, {"recipe": {}}]}', b"\xff"):
        document.keep(MEMBER, data)
        assert pins_of(document) == ()


@pytest.mark.slow
def test_another_file_is_opened_in_the_worker_as_the_user_named_it(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path
) -> None:
    panel = shown(edited, qtbot)
    panel.choose_file("a", str(tmp_path / "other.espalier"))
    job = job_of(runner, OpenJob).job
    assert job.origin is Origin.TYPED and job.spec == str(tmp_path / "other.espalier")
    edited.session.score_changed.emit()
    assert job_of(runner, OpenJob).job is job, "it is not opened twice"
    base = small_project()
    node = replace(base.graph["fc2"], precision={"weight": Precision(INT4)})
    other = replace(base, graph=base.graph.replace(node))
    finish(runner, OpenJob, OpenResult(other, {}, (), {}))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    rows = {(r["node"], r["what"]): (r["A"], r["B"]) for r in panel.table.rows.shown}
    assert rows["fc2", "weight format"] == ("int4 channel", "float")
    assert edited.session.document.recipe.steps, "the document stays"
    panel.comparing.swap()
    assert not panel.selectors.use.isEnabled(), "a file has no recipe for this document"


@pytest.mark.slow
def test_a_python_file_is_compared_by_its_factory(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = shown(edited, qtbot)
    file = tmp_path / "net.py"
    file.write_text("def small():\n    ...\ndef large():\n    ...\n")
    offered: list[list[str]] = []

    def ask_text(title: str, label: str, text: str, then: Callable[[str], object], items: list[str]) -> None:
        offered.append(items)
        then("large")

    dialogs = edited.services.dialogs
    monkeypatch.setattr(dialogs, "ask_path", lambda title, then, **_: then(file))
    monkeypatch.setattr(dialogs, "ask_text", ask_text)
    panel.file_wanted.emit("a")
    job = job_of(runner, OpenJob).job
    assert offered == [["small", "large"]]
    assert job.spec == f"{file}:large" and job.origin is Origin.TYPED
    assert panel.comparing.sides["a"] and panel.comparing.sides["a"].title == "net.py:large"


@pytest.mark.slow
def test_a_file_that_does_not_open_says_so(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path
) -> None:
    panel = shown(edited, qtbot)
    panel.choose_file("b", str(tmp_path / "broken.espalier"))
    runner[-1].tell(job_of(runner, OpenJob), Failed("broken.espalier is not a project.", "Choose another.", None, ""))
    assert panel.message.text() == "broken.espalier is not a project. Choose another."
    assert not edited.banner.isVisible(), "said in the panel alone"


@pytest.mark.slow
def test_a_state_that_needs_the_worker_is_computed_beside_the_document(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session = edited.session
    recipe = Recipe((Step("prune", PruneOptions(sparsity=0.5)),))
    panel = shown(edited, qtbot)
    pin(session.open_document, "half", recipe)
    before = session.recipe
    panel.comparing.choose("a", choice(edited, "pin", "half"))
    job = job_of(runner, ReplayJob).job
    assert job.beside and job.recipe == recipe
    session.set_format(["fc2"], "weight", INT4)
    assert session.recipe != before and not session.pending_edits, "edits do not wait for it"
    base = session.open_document.project.base
    finish(runner, ReplayJob, ReplayResult(base, (None,), {}))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    assert session.recipe != recipe and panel.comparing.result.a is base


@pytest.mark.slow
def test_trials_of_a_study_are_states(edited: Window, qtbot: QtBot) -> None:
    document = edited.session.open_document
    space = Space((Choice("bits", "format", (str(INT8), str(INT4)), nodes=("fc2",), ports=("weight",)),))
    spec = SearchSpec(study="mixed", score=EvaluateOptions(data="demo:reviews"))
    worse, best = (
        Trial(i, "complete", {"bits": str(f)}, (value,), figures={"accuracy": value, "loss": 1.0, "kl": 0.25})
        for i, f, value in ((0, INT8, 0.5), (1, INT4, 0.75))
    )
    document.keep(member_of("mixed"), dump(Record(spec, Recipe(), space, (worse, best), "k")))
    panel = shown(edited, qtbot)
    titles = [c.title for g in choices_of(edited.session) for c in g if c.kind == "trial"]
    assert titles == ["Trial 1 of mixed · 75.0\u2009%", "Trial 0 of mixed · 50.0\u2009%"], "the best first"
    panel.comparing.choose("b", choice(edited, "trial", "mixed/1"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    rows = {(r["node"], r["what"]): r["B"] for r in panel.table.rows.shown}
    assert rows == {("fc2", "weight format"): "int4 channel"}
    panel.selectors.use.click()
    assert str(document.graph["fc2"].precision["weight"].format) == str(INT4)
    assert edited.session.score.accuracy == 0.75, "its score is known"


@pytest.mark.slow
def test_another_document_ends_the_comparison(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    edited.begin_opening("demo:small")
    finish(runner, OpenJob, OpenResult(small_project(), {}, (), {}))
    assert not is_shown(edited.host) and edited.canvas.isVisible()
    panel = shown(edited, qtbot)
    assert panel.headline.toolTip().startswith("Nothing differs") and panel.table.rows.shown == []


@pytest.mark.slow
def test_closing_the_document_ends_the_comparison_and_lets_it_go(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    panel = shown(edited, qtbot)
    assert panel.table.rows.shown
    edited.session.close()
    assert panel.comparing.result is None and panel.table.rows.shown == []
    assert panel.pair is not None and [c.graph for c in panel.pair.canvases] == [None, None]
    open_small(edited, runner, small_project())
    assert edited.canvas.isVisible() and not panel.isVisible()


@pytest.mark.slow
def test_a_stopped_job_says_so_and_can_be_repeated(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pin(edited.session.open_document, "half", Recipe((Step("prune", PruneOptions(sparsity=0.5)),)))
    half = choice(edited, "pin", "half")
    panel.comparing.choose("a", half)
    edited.session.cancel(job_of(runner, ReplayJob).id)
    assert "was stopped" in panel.message.text()
    panel.comparing.choose("a", half)
    finish(runner, ReplayJob, ReplayResult(edited.session.open_document.project.base, (None,), {}))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)


@pytest.mark.slow
def test_a_file_that_opens_after_its_document_was_closed_is_let_go(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = shown(edited, qtbot)
    panel.choose_file("a", str(tmp_path / "other.espalier"))
    info = job_of(runner, OpenJob)
    monkeypatch.setattr(runner[-1], "cancel", lambda number: None)  # it ends before the worker hears of it
    edited.session.close()
    runner[-1].tell(info, Done(OpenResult(small_project(), {}, (), {})))
    assert not info.job.workdir.exists(), "its folder is deleted"


@pytest.mark.slow
def test_a_file_is_opened_again_when_it_is_chosen_again(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot, tmp_path: Path
) -> None:
    panel, base = shown(edited, qtbot), small_project()
    for fmt in (INT4, INT8):
        panel.choose_file("a", str(tmp_path / "other.espalier"))
        node = replace(base.graph["fc2"], precision={"weight": Precision(fmt)})
        finish(runner, OpenJob, OpenResult(replace(base, graph=base.graph.replace(node)), {}, (), {}))
        qtbot.waitUntil(lambda: panel.comparing.result is not None)
        assert panel.comparing.result.a["fc2"].precision["weight"].format == fmt


@pytest.mark.slow
def test_a_computed_state_has_lines_in_the_log_and_resolves_no_error_of_an_edit(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    panel, log = shown(edited, qtbot), edited.docks.panels["log"]
    assert isinstance(log, LogPanel)
    edited.banner.show_error(EspalierError("The edit failed."))
    pin(edited.session.open_document, "half", Recipe((Step("prune", PruneOptions(sparsity=0.5)),)))
    panel.comparing.choose("a", choice(edited, "pin", "half"))
    finish(runner, ReplayJob, ReplayResult(edited.session.open_document.project.base, (None,), {}))
    assert "Compute Pinned: half: started" in log._text.toPlainText()
    assert edited.banner.isVisible(), "the edit still failed"
