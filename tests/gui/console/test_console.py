"""The console in the window: its edits are the document's, and nothing that runs in it holds the window."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import espalier as es
from espalier.app.features.console.panel import ConsolePanel
from espalier.app.features.console.run import ConsoleRun
from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format
from espalier.passes.jobs.kinds import Failed, ReplayJob, Started
from tests.gui.conftest import FakeRunner, open_small
from tests.patience import budget

pytestmark = pytest.mark.gui
SECONDS = 20_000  # milliseconds


@pytest.fixture(scope="module")
def digits() -> es.Model:
    """A model; its files live as long as it does."""
    return es.open("demo:digits-mlp")


@pytest.fixture
def panel(window: Window, runner: list[FakeRunner], digits: es.Model) -> ConsolePanel:
    """The console of a window with the digits model; no measurement follows an edit."""
    window.live.enabled = False
    open_small(window, runner, digits.project)
    runner[-1].waiting.clear()
    window.host.enter_dock("console")
    found = window.docks.panels["console"]
    assert isinstance(found, ConsolePanel)
    return found


@pytest.fixture
def ran(panel: ConsolePanel, qtbot: QtBot) -> Iterator[Callable[[str], str]]:
    """Runs a text as if it was typed, and returns what it shows."""

    def run(text: str) -> str:
        before = len(panel.output.toPlainText())
        begin(panel, text)
        qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
        return panel.output.toPlainText()[before:].strip("\n")

    yield run


def begin(panel: ConsolePanel, text: str) -> None:
    panel.entry.show_text(text)
    QTest.keyClick(panel.entry, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def passes(window: Window) -> list[str]:
    return [s.pass_name for s in window.session.open_document.recipe.steps]


@pytest.mark.slow
def test_an_edit_is_a_step_of_the_document_that_the_window_undoes(
    window: Window, panel: ConsolePanel, ran: Callable[[str], str]
) -> None:
    shown = ran("m.quantize('linear', weight='int8')")
    assert passes(window) == ["quantize"] and window.session.open_document.dirty
    assert "<Model" in shown and "steps: quantize" in shown
    reference = es.open("demo:digits-mlp").quantize("linear", weight="int8")
    assert window.session.open_document.graph == reference.project.graph
    assert window.session.open_document.recipe == reference.project.recipe
    window.actions_table.run("undo")
    assert passes(window) == [] and "steps: none" in ran("m")
    window.actions_table.run("redo")
    assert "m.redo()" in panel.output.toPlainText() and "steps: quantize" in ran("m")
    ran("m.undo()")
    assert passes(window) == []


@pytest.mark.slow
def test_an_edited_graph_is_the_windows(window: Window, ran: Callable[[str], str]) -> None:
    node = next(n.id for n in window.session.open_document.graph if n.op == "relu")
    ran(f"m.edit_graph([{{'rename': {{'node': {node!r}, 'name': 'first'}}}}])")
    assert window.session.open_document.graph[node].annotation.title == "first"
    assert ran(f"m[{node!r}].annotation.title").endswith("'first'")


@pytest.mark.slow
def test_a_copy_stays_in_the_console(window: Window, ran: Callable[[str], str]) -> None:
    shown = ran("half = m.copy().quantize('linear', weight='int4')\nlen(half.recipe), len(m.recipe)")
    assert shown.endswith("(1, 0)") and passes(window) == []


@pytest.mark.slow
def test_the_selection_goes_both_ways(window: Window, ran: Callable[[str], str]) -> None:
    nodes = [n.id for n in window.session.open_document.graph if n.op == "linear"]
    window.session.select(nodes[:1])
    assert ran("selection").endswith(repr(nodes[:1]))
    ran("selection = [n.id for n in m.nodes('linear')]")
    assert window.session.selection == tuple(nodes)
    ran("select('relu')")
    assert {window.session.open_document.graph[i].op for i in window.session.selection} == {"relu"}
    ran("selection.clear()")
    assert window.session.selection == ()
    assert "There is no node 'no_such'" in ran("selection = ['no_such']")
    shown = ran("selection = [1]")
    assert "1 is no node. Give ids of nodes" in shown and "Traceback" not in shown.partition("selection = [1]")[2]


@pytest.mark.slow
def test_saved_selections_are_those_of_the_window(window: Window, ran: Callable[[str], str]) -> None:
    saved = window.session.saved_selections
    first, *_, last = [n.id for n in window.session.open_document.graph if n.op == "linear"]
    window.session.select((first,))
    saved.save("first layer")
    assert ran("m.selections['first layer']").endswith(repr((first,)))
    ran(f"m.selections['last'] = [{last!r}]")
    assert saved.saved == {"first layer": (first,), "last": (last,)}
    ran("m.quantize('saved:last', weight='int8')")
    select = window.session.recipe.steps[-1].options.rules[0].select
    assert (select.values, select.nodes) == (("last",), (last,))
    assert "There is no saved selection 'lost'" in ran("m.quantize('saved:lost', weight='int8')")
    ran("del m.selections['last']")
    assert list(saved.saved) == ["first layer"] and window.session.open_document.dirty


@pytest.mark.slow
def test_errors_have_two_sentences_and_the_documents_state_stays(window: Window, ran: Callable[[str], str]) -> None:
    shown = ran("m.prune('linear', sparsty=0.5)")
    assert shown.endswith("OptionsError: sparsty is not an option. Did you mean 'sparsity'?")
    assert "espalier/" not in shown and passes(window) == []


@pytest.mark.slow
def test_actions_of_the_window_appear_as_lines_that_repeat_them(
    window: Window, panel: ConsolePanel, ran: Callable[[str], str]
) -> None:
    session = window.session
    linear = [n.id for n in session.open_document.graph if n.op == "linear"]
    session.set_format(linear, "weight", parse_format("integer(width=8, frac_width=6)"))
    session.set_format(linear, "weight", parse_format("integer(width=6, frac_width=4)"))
    session.set_format(linear[:1], "data_in", parse_format("mxint(width=8)"))
    session.undo()
    session.redo()
    lines = [line[4:] for line in panel.output.toPlainText().splitlines() if line.startswith(">>> ")]
    opened = next(i for i, line in enumerate(lines) if line.startswith("m = es.open("))
    values: dict[str, object] = {"es": es}
    exec("\n".join(lines[opened:]), values)
    model = values["m"]
    assert isinstance(model, es.Model)
    assert model.project.recipe == session.open_document.recipe
    panel.echo_box.setChecked(False)
    before = panel.output.toPlainText()
    session.undo()
    assert panel.output.toPlainText() == before
    panel.echo_box.setChecked(True)
    ran("m.redo()")
    assert panel.output.toPlainText().count("m.redo()") == 2  # the echo of before, and what was typed


@pytest.mark.slow
def test_a_long_edit_is_a_job_that_the_console_waits_for(
    window: Window, panel: ConsolePanel, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    begin(panel, "m.prune('linear', sparsity=0.5, method='wanda', data='demo:digits')\n'after'")
    jobs = runner[-1].waiting
    qtbot.waitUntil(lambda: any(isinstance(j.job, ReplayJob) for j in jobs), timeout=SECONDS)
    info = next(j for j in jobs if isinstance(j.job, ReplayJob))
    assert panel.run.running and passes(window) == []
    runner[-1].tell(info, Started())
    runner[-1].tell(info, Failed("The data are gone.", "Find them."))
    qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
    assert panel.output.toPlainText().endswith("JobError: The data are gone. Find them.")
    assert not window.banner.isVisible()


@pytest.mark.slow
def test_stopping_an_edit_that_waits_takes_its_job_away(
    window: Window, panel: ConsolePanel, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    begin(panel, "m.prune('linear', sparsity=0.5, method='wanda', data='demo:digits')")
    jobs = runner[-1].waiting
    qtbot.waitUntil(lambda: any(isinstance(j.job, ReplayJob) for j in jobs), timeout=SECONDS)
    panel.stop_link.click()
    qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
    assert not any(isinstance(j.job, ReplayJob) for j in jobs) and passes(window) == []
    assert "Stopped (KeyboardInterrupt)." in panel.output.toPlainText()


@pytest.mark.slow
def test_steps_with_arrays_of_the_console_are_refused(window: Window, ran: Callable[[str], str]) -> None:
    shown = ran(
        "m.prune('linear', sparsity=0.5, method='wanda', data=(np.zeros((8, 1, 8, 8), 'float32'), np.zeros(8, int)))"
    )
    assert "cannot use arrays of the console" in shown and passes(window) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["while True: pass", "while True: print('y' * 300)", "import time; time.sleep(100)"])
def test_the_window_stays_usable_and_stop_works(
    window: Window, panel: ConsolePanel, ran: Callable[[str], str], qtbot: QtBot, text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    spent: list[float] = []
    take = ConsoleRun._take

    def timed(run: ConsoleRun) -> None:
        start = time.thread_time()
        take(run)
        spent.append(time.thread_time() - start)

    monkeypatch.setattr(ConsoleRun, "_take", timed)
    panel.run._soon.timeout.disconnect()
    panel.run._soon.timeout.connect(lambda: timed(panel.run))
    ran("1")
    begin(panel, text)
    qtbot.wait(700)
    window.session.select([next(iter(window.session.open_document.graph.nodes))])
    assert window.session.selection and panel.run.running
    assert max(spent) < budget(0.05)  # of the event loop's own time
    QTest.keyClick(panel.entry, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
    assert panel.output.blockCount() <= 5000
    ran("'goes on'")
    assert panel.output.toPlainText().endswith("'goes on'")


@pytest.mark.slow
def test_a_process_that_ends_is_told_and_the_next_text_starts_another(
    window: Window, panel: ConsolePanel, ran: Callable[[str], str]
) -> None:
    ran("m.quantize('linear', weight='int8')")
    shown = ran("import os; os._exit(3)")
    assert "ended (exit code 3)" in shown and passes(window) == ["quantize"]
    assert "steps: quantize" in ran("m")


@pytest.mark.slow
def test_restart_ends_what_cannot_be_stopped(window: Window, panel: ConsolePanel, qtbot: QtBot,
                                            ran: Callable[[str], str]) -> None:  # fmt: skip
    ran("x = 1")
    panel.run._patience.setInterval(100)
    begin(panel, "sum(range(10 ** 13))")  # a loop in C, which looks at no signal
    qtbot.wait(300)
    panel.stop_link.click()
    qtbot.waitUntil(lambda: panel.run.stuck, timeout=SECONDS)
    pid = panel.run.pid
    panel.restart_link.click()
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)
    assert "NameError" in ran("x") and "<Model" in ran("m")


@pytest.mark.slow
def test_input_is_typed_into_the_entry(panel: ConsolePanel, qtbot: QtBot) -> None:
    begin(panel, "name = input('Name? ')\nname.upper()")
    qtbot.waitUntil(lambda: panel.run.waits_for_line, timeout=SECONDS)
    panel.entry.show_text("for")  # no Python, and no open text either
    QTest.keyClick(panel.entry, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
    assert panel.output.toPlainText().endswith("Name? \nfor\n'FOR'")


@pytest.mark.slow
def test_enter_continues_an_open_text_and_the_history_comes_back(panel: ConsolePanel, qtbot: QtBot) -> None:
    entry = panel.entry
    QTest.keyClicks(entry, "for i in range(2):")
    QTest.keyClick(entry, Qt.Key.Key_Return)
    QTest.keyClicks(entry, "print(i)")
    QTest.keyClick(entry, Qt.Key.Key_Return)
    assert entry.text == "for i in range(2):\n    print(i)\n    " and not panel.run.running
    QTest.keyClick(entry, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not panel.run.running, timeout=SECONDS)
    assert panel.output.toPlainText().endswith("0\n1") and entry.text == ""
    QTest.keyClick(entry, Qt.Key.Key_Up)
    assert entry.text == "for i in range(2):\n    print(i)"
    QTest.keyClick(entry, Qt.Key.Key_Down)
    assert entry.text == ""


@pytest.mark.slow
def test_tab_completes(panel: ConsolePanel, ran: Callable[[str], str], qtbot: QtBot) -> None:
    ran("1")
    QTest.keyClicks(panel.entry, "m.fold_b")
    QTest.keyClick(panel.entry, Qt.Key.Key_Tab)
    qtbot.waitUntil(lambda: panel.entry.text == "m.fold_batch_norm", timeout=SECONDS)
    panel.entry.show_text("m.quan")
    QTest.keyClick(panel.entry, Qt.Key.Key_Tab)
    qtbot.waitUntil(lambda: panel.entry.text != "m.quan" or panel.entry.list.isVisible(), timeout=SECONDS)
    panel.entry.list.hide()


@pytest.mark.slow
def test_another_model_is_m_and_the_last_one_says_that_it_is_closed(
    window: Window, runner: list[FakeRunner], ran: Callable[[str], str]
) -> None:
    ran("old = m")
    window.session.close()
    assert "NameError" in ran("m")
    open_small(window, runner, es.open("demo:digits").project)
    assert "Digits (CNN)" in ran("m") or "Digits" in ran("m")
    assert "was closed" in ran("old.quantize('linear', weight='int8')")
    ran("m = 5")
    assert ran("m").endswith("5")


@pytest.mark.slow
def test_undo_in_an_empty_entry_is_the_windows(window: Window, panel: ConsolePanel, ran: Callable[[str], str]) -> None:
    ran("m.quantize('linear', weight='int8')")
    panel.entry.setFocus()
    QTest.keyClick(panel.entry, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert passes(window) == []
    QTest.keyClicks(panel.entry, "abc")
    window.session.redo()
    QTest.keyClick(panel.entry, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert passes(window) == ["quantize"] and panel.entry.text != "abc"


def test_the_recipe_is_saved_as_a_script(window: Window, panel: ConsolePanel, runner: list[FakeRunner],
                                         tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    asked: list[str] = []

    def ask(title: str, then: Callable[[Path], object], **_: object) -> None:
        asked.append(title)
        then(tmp_path / "again")

    monkeypatch.setattr(window.services.dialogs, "ask_path", ask)
    panel.script_link.click()
    job = runner[-1].waiting[-1].job
    assert asked == ["Save as script"] and job.form == "script" and job.path == tmp_path / "again.py"
