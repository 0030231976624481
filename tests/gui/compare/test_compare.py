"""The panel Compare: sides, differences, linked canvases, pins, files, and what becomes of the document."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.compare.actions import existing_panel, is_shown
from espalier.app.features.compare.canvases import TITLE_HEIGHT, CanvasPair
from espalier.app.features.compare.panel import ComparePanel
from espalier.app.features.compare.state.choices import StateChoice, choices_of
from espalier.app.features.compare.state.pins import MEMBER, pin, pins_of
from espalier.app.features.compare.state_box import UNPIN
from espalier.app.features.compare.tables import shared_widths
from espalier.app.features.log.panel import LogPanel
from espalier.app.figures.difference import COST
from espalier.app.shell.presenting import SCALE
from espalier.app.shell.window import Window
from espalier.model.document.arrangement import UNARRANGED, Arrangement, Pin
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.trust import Origin
from espalier.passes.analysis.change_divergence import RowDivergence
from espalier.passes.base import NoOptions, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    Failed,
    JobInfo,
    OpenJob,
    OpenResult,
    PartialResult,
    ReplayJob,
    ReplayResult,
    Started,
    Stopped,
)
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import static_score
from espalier.passes.search.record import Record, dump, member_of
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial
from espalier.passes.sensitivity.outputs import WORDS
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui

INT8, INT4 = parse_format("int8"), parse_format("int4")


@pytest.fixture
def edited(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Window:
    """The small model after two steps: a weight in int8, and the dropout removed."""
    window.live.enabled = False
    open_small(window, runner, small_project())
    window.resize(1200, 800)
    window.show()
    window.session.set_format(["fc1"], "weight", INT8)
    window.session.run_pass("remove_dropout", NoOptions())
    return window


def shown(window: Window, qtbot: QtBot) -> ComparePanel:
    """The panel with its comparison."""
    if not is_shown(window.host):
        window.actions_table.run("compare")
    panel = existing_panel(window.host)
    assert panel is not None
    qtbot.waitUntil(lambda: panel.comparing.result is not None or panel.comparing.error is not None)
    return panel


def choice(window: Window, kind: str, name: str = "") -> StateChoice:
    """A choice of the open document."""
    return next(c for g in choices_of(window.session) for c in g if (c.kind, c.name) == (kind, name))


def job_of(runner: list[FakeRunner], kind: type) -> JobInfo:
    """The only job of a kind; copies for recovery come when they come."""
    (info,) = (i for i in runner[-1].waiting if isinstance(i.job, kind))
    return info


def finish(runner: list[FakeRunner], kind: type, result: object) -> None:
    """Let the only job of a kind end."""
    info = job_of(runner, kind)
    for event in (Started(), Done(result)):
        runner[-1].tell(info, event)


def laid_out(panel: ComparePanel, qtbot: QtBot) -> CanvasPair:
    """The canvases, once both graphs are laid out."""
    pair = panel.pair
    assert pair is not None
    qtbot.waitUntil(lambda: all(c.scene is not None and not c.waiting for c in pair.canvases))
    return pair


def test_opened_and_now_are_compared_first(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    assert [panel.selectors.boxes[p].currentText() for p in ("a", "b")] == [
        "Opened, before the first step", "Now, after 2 steps",
    ]  # fmt: skip
    rows = {(r["node"], r["what"]): (r["A"], r["B"]) for r in panel.table.rows.shown}
    assert rows["fc1", "weight format"] == ("float", "int8 channel")
    assert rows["drop", "removed"] == ("dropout", "–")
    assert rows["fc2", "inputs"] == ("drop", "fc1")
    sizes = [static_score(g).size_bytes for g in (edited.session.open_document.project.base, edited.canvas.graph)]
    score = next(r for r in panel.comparing.result.scores if r.name == "size_bytes")
    assert [score.a, score.b] == sizes and score.verdict == "better"


def test_the_panel_covers_the_graph_and_leaves_it_as_it_was(edited: Window, qtbot: QtBot) -> None:
    docks = {n: (d.isVisible(), d.height()) for n, d in edited.docks.docks.items()}
    panel = shown(edited, qtbot)
    assert panel.isVisible() and not edited.canvas.isVisible() and not edited.docks.docks["recipe"].isVisible()
    panel.table.setFocus()
    qtbot.keyClick(panel.table, Qt.Key.Key_Escape)
    assert edited.canvas.isVisible() and not panel.isVisible() and not is_shown(edited.host)
    qtbot.waitUntil(lambda: edited.docks.docks["recipe"].isVisible())
    qtbot.wait(20)
    assert {n: (d.isVisible(), d.height()) for n, d in edited.docks.docks.items() if docks[n][0]} == {
        n: v for n, v in docks.items() if v[0]
    }
    shown(edited, qtbot)
    edited.host.go_to("fc1")
    assert edited.canvas.isVisible(), "what shows a node shows the graph"


def test_a_row_selects_its_node_in_both_graphs(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    rows = [r["what"] for r in panel.table.rows.shown]
    panel.table.setCurrentIndex(panel.table.rows.index(rows.index("weight format"), 0))
    assert [c.selection() for c in pair.canvases] == [("fc1",), ("fc1",)]
    panel.table.setCurrentIndex(panel.table.rows.index(rows.index("removed"), 0))
    assert [c.selection() for c in pair.canvases] == [("drop",), ()], "a removed node has no partner"
    pair.canvases[0].select(("fc2",))
    assert pair.canvases[1].selection() == ("fc2",)
    assert panel.table.group_at(panel.table.currentIndex().row()).nodes == ("fc2",)
    before = panel.table.currentIndex().row()
    edited.actions_table.run("compare_next")
    assert panel.table.currentIndex().row() == (before + 1) % len(rows)
    assert panel.slider.position.text() == f"{panel.table.currentIndex().row() + 1} of {len(rows)}"


@pytest.mark.slow
def test_the_row_that_the_focus_makes_current_is_marked(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    assert panel.table.currentIndex().row() < 0
    edited.actions_table.run("compare")
    shown(edited, qtbot)
    qtbot.waitUntil(lambda: panel.table.currentIndex().row() == 0)
    assert [i.row() for i in panel.table.selectionModel().selectedRows()] == [0]
    assert panel.slider.position.text().startswith("1 of")


def test_columns_shrink_from_the_widest() -> None:
    assert shared_widths([100, 60, 40], 300) == [200, 60, 40], "what is left over goes to the first"
    assert shared_widths([120, 60, 300, 280], 500) == [120, 60, 160, 160]
    assert shared_widths([300, 60, 300], 260) == [100, 60, 100]
    assert shared_widths([], 100) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 900])
def test_long_values_leave_room_for_the_names_of_nodes(edited: Window, qtbot: QtBot, width: int) -> None:
    panel = shown(edited, qtbot)
    edited.session.set_format(["fc2"], "data_in", parse_format("mxint(width=8, exponent_width=8, block_size=32)"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    table = panel.table
    table.setParent(None)
    qtbot.addWidget(table)
    table.resize(width, 200)
    table.show()
    assert table.columnWidth(0) >= min(table.sizeHintForColumn(0), width // 6)
    assert table.horizontalHeader().length() <= max(
        table.viewport().width(), 6 * table.horizontalHeader().minimumSectionSize()
    )


@pytest.mark.slow
def test_changed_nodes_are_outlined(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    for canvas, names in zip(pair.canvases, ({"fc1", "fc2", "drop"}, {"fc1", "fc2"}), strict=True):
        layout = canvas.scene.layout
        assert {layout.tree.ids[layout.nodes[i]] for i in canvas.marks.changed_nodes} == names
    image = pair.canvases[1].grab().toImage()
    orange = sum(image.pixelColor(x, y).name() == "#d55e00" for x in range(0, image.width(), 2)
                 for y in range(0, image.height(), 2))  # fmt: skip
    assert orange > 50, "two outlines"


@pytest.mark.slow
def test_cameras_are_linked(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    a, b = laid_out(panel, qtbot).canvases
    rect = [c.scene.rect_of(c.scene.layout.tree.index["fc1"]) for c in (a, b)]
    a.zoom_by(1.3)
    a.centre(rect[0][0], rect[0][1])
    assert b.camera.scale == a.camera.scale
    assert b.camera.to_screen(*rect[1][:2]) == pytest.approx(a.camera.to_screen(*rect[0][:2])), "fc1 at one place"
    panel.slider._link.click()
    before = b.camera.x, b.camera.y
    a.centre(rect[0][0] + 500, rect[0][1])
    assert (b.camera.x, b.camera.y) == before


@pytest.mark.slow
def test_equal_states_are_drawn(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    edited.session.undo()
    edited.session.undo()
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    assert panel.comparing.result.headline.startswith("Nothing differs")
    assert all(c.graph is not None for c in laid_out(panel, qtbot).canvases)
    assert pair.titles[0].text().startswith("A · Opened")
    assert len(panel.scores.table.rows.shown) > 3


@pytest.mark.slow
def test_one_picture_shows_a_left_of_the_edge_and_b_right_of_it(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    panel.set_mode("one picture")
    panel.slider._edge.setValue(300)
    edge, y = round(0.3 * pair.width()), TITLE_HEIGHT + 60
    assert pair.canvases[0].geometry() == pair.canvases[1].geometry()
    assert pair.childAt(QPoint(edge - 10, y)) is pair.canvases[0]
    assert pair.childAt(QPoint(edge + 10, y)) is pair.canvases[1]
    panel.set_mode("side by side")
    assert pair.canvases[1].mask().isEmpty() and pair.canvases[1].x() >= pair.canvases[0].width()


@pytest.mark.slow
def test_using_b_is_one_edit(edited: Window, qtbot: QtBot) -> None:
    session = edited.session
    panel = shown(edited, qtbot)
    whole = session.recipe
    assert not panel.selectors.use.isEnabled(), "B is what the document is already"
    panel.comparing.choose("b", choice(edited, "step", "1"))
    qtbot.waitUntil(lambda: panel.comparing.result is not None)
    panel.selectors.use.click()
    assert session.recipe == Recipe(whole.steps[:1]) and "drop" in session.document.graph.nodes
    session.undo()
    assert session.recipe == whole


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
def test_the_table_is_filtered_copied_and_saved(edited: Window, qtbot: QtBot, tmp_path: Path) -> None:
    panel = shown(edited, qtbot)
    panel.filter.setText("int8")
    assert [r["node"] for r in panel.table.rows.shown] == ["fc1"]
    panel.copy_as("CSV")
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert {(r["node"], r["what"]) for r in rows} >= {("fc1", "weight format"), ("drop", "removed")}
    panel.copy_as("Text")
    assert "int8 channel" in QGuiApplication.clipboard().text()
    panel.save(tmp_path / "d.html")
    assert "<table>" in (tmp_path / "d.html").read_text()
    with pytest.raises(Exception, match="no known ending"):
        panel.save(tmp_path / "d.docx")


@pytest.mark.slow
def test_the_theme_reaches_both_canvases(edited: Window, qtbot: QtBot) -> None:
    pair = laid_out(shown(edited, qtbot), qtbot)
    edited.appearance.set_mode("dark")
    qtbot.waitUntil(lambda: all(c.tokens.dark for c in pair.canvases))
    edited.appearance.set_mode("light")
    qtbot.waitUntil(lambda: not any(c.tokens.dark for c in pair.canvases))


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


def measurable(window: Window) -> None:
    """Data for the score, which the fake worker never reads."""
    window.session.measures.options = EvaluateOptions("demo:digits", limit=8)


@pytest.mark.slow
def test_what_each_row_costs_arrives_row_by_row(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    measurable(edited)
    panel = shown(edited, qtbot)
    assert panel.costs.button.isVisible() and COST not in panel.table.rows.columns
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    assert info.job.step.pass_name == "change_divergence" and info.job.base is panel.comparing.result.a
    assert info.job.graph is panel.comparing.result.b and panel.costs.button.text() == "Stop measuring"
    groups = panel.comparing.result.groups
    runner[-1].tell(info, Started())
    index = next(i for i, g in enumerate(groups) if g.kind == "format")
    removed = next(i for i, g in enumerate(groups) if g.kind == "removed")
    panel.table.setCurrentIndex(panel.table.rows.index(1, 0))
    for row in (RowDivergence(index, 0.0125), RowDivergence(removed, None, "The structure differs.")):
        runner[-1].tell(info, PartialResult(row))
    cells = [r[COST] for r in panel.table.rows.shown]
    assert (cells[index], cells[removed]) == (0.0125, "The structure differs")
    assert cells.count("…") == len(groups) - 2 and panel.costs.words.isVisible()
    figures = {"n": 8, "what": WORDS["classes"], "together": 0.5}
    runner[-1].tell(info, Done(Report("change_divergence", (), figures)))
    assert "n = 8 · all rows 0.5" in panel.costs.words.toolTip() and not panel.costs.button.isVisible()
    panel.copy_as("CSV")
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert next(r for r in rows if r["what"] == "weight format")["row_kl"] == "0.0125"
    assert next(r for r in rows if r["what"] == "removed")["row_kl_note"] == "The structure differs."
    edited.session.set_format(["fc2"], "weight", INT4)
    qtbot.waitUntil(lambda: len(panel.table.rows.shown) > len(groups))
    assert COST not in panel.table.rows.columns and panel.costs.button.isVisible(), "other graphs are not measured"


@pytest.mark.slow
def test_measuring_rows_can_be_stopped(edited: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    measurable(edited)
    panel = shown(edited, qtbot)
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    runner[-1].tell(info, Started())
    runner[-1].tell(info, PartialResult(RowDivergence(0, 0.25)))
    panel.costs.button.click()
    if info in runner[-1].waiting:
        runner[-1].tell(info, Stopped())
    assert not panel.comparing.costs.busy and panel.costs.button.text() == "Measure KL"
    assert panel.table.rows.shown[0][COST] == 0.25, "what was measured stays"


def test_rows_show_that_they_are_measured_in_the_pair_that_is(
    edited: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    """Another pair that is known has nothing to wait for, and can still be measured."""
    measurable(edited)
    panel = shown(edited, qtbot)
    first, costs = panel.comparing.result, panel.comparing.costs
    panel.costs.button.click()
    runner[-1].tell(job_of(runner, AnalyseJob), Stopped())
    edited.session.set_format(["fc2"], "weight", INT4)
    qtbot.waitUntil(lambda: panel.comparing.result is not None and panel.comparing.result is not first)
    second = panel.comparing.result
    assert first is not None and second is not None
    panel.costs.button.click()
    info = job_of(runner, AnalyseJob)
    assert costs.busy and costs.of(first) is None and costs.of(second) is not None
    edited.session.undo()
    qtbot.waitUntil(lambda: panel.comparing.result is not None and panel.comparing.result.b is first.b)
    assert COST not in panel.table.rows.columns
    runner[-1].tell(info, Stopped())
    assert costs.of(second) is None


def test_pins_and_frames_are_shown(edited: Window, qtbot: QtBot) -> None:
    session = edited.session
    session.arrange(Arrangement((Pin("node", "fc1", 400.0, 30.0, "down"),)), "Move fc1")
    panel = shown(edited, qtbot)
    pair = laid_out(panel, qtbot)
    for canvas in pair.canvases:
        assert canvas.arrangement == session.open_document.arrangement != UNARRANGED
    session.undo()
    assert all(c.arrangement == UNARRANGED for c in pair.canvases), "they follow the document"
    drawn = panel._whole(panel.comparing.result)
    assert drawn.arrangements == (UNARRANGED, UNARRANGED)


def test_the_panel_is_presented(edited: Window, qtbot: QtBot) -> None:
    panel = shown(edited, qtbot)
    presenting, table = edited.services.presenting, edited.actions_table
    table.refresh()
    assert table.actions["present"].text() == "Present Compare" and table.actions["present"].isEnabled()
    table.run("present")
    assert presenting.active and panel.isVisible() and is_shown(edited.host) and panel.window() is not edited
    assert panel.width() >= edited.width() / SCALE - 1, "as large as its parts allow"
    view = panel.graphicsProxyWidget()
    assert view is not None and 1 < view.scale() <= SCALE and abs(panel.width() * view.scale() - edited.width()) <= 2
    table.run("present")
    assert not presenting.active and panel.window() is edited and panel.isVisible() and is_shown(edited.host)
    table.run("present")
    panel.selectors.leave.click()
    assert not presenting.active and edited.canvas.isVisible() and not is_shown(edited.host)
    again = shown(edited, qtbot)
    assert again is panel and panel.isVisible() and panel.window() is edited
