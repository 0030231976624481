"""The last session is reopened as a click in File → Open recent opens it; at the start only if the settings say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication, QPushButton

from espalier.app.settings import Settings
from espalier.app.shell.window import Window
from espalier.model.trust import Origin, decide, wanted_code
from espalier.passes.jobs.kinds import OpenJob
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("espalier.model.trust._typed", set())


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A Python file that must not run unasked."""
    file = tmp_path / "net.py"
    file.write_text("raise SystemExit\n")
    return file


def opened(runner: list[FakeRunner]) -> list[str]:
    return [j.job.spec for j in runner[-1].waiting if isinstance(j.job, OpenJob)]


def start(window: Window, has_unsaved: bool = False) -> None:
    window.services.reopening.at_start(has_unsaved)
    QApplication.processEvents()


def test_the_row_names_what_it_opens_and_leaves_out_the_open_model(window: Window, runner: list[FakeRunner]) -> None:
    table = window.actions_table
    table.refresh()
    assert not table.actions["reopen"].isEnabled()
    window.settings.add_recent("demo:digits")
    open_small(window, runner)
    assert window.settings.recent == ["demo:small", "demo:digits"]
    table.refresh()
    assert table.actions["reopen"].text() == "Reopen the last session: demo:digits"
    table.run("reopen")
    assert opened(runner) == ["demo:digits"]


def test_files_are_found_again_from_any_folder(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("")
    for spec in ("gone.espalier", "hf:org/net", "net.py", "net.py:make"):
        window.settings.add_recent(spec)
    assert window.settings.recent == [f"{tmp_path}/net.py:make", f"{tmp_path}/net.py", "hf:org/net", "gone.espalier"]
    window.settings.session = ["net.py", "demo:digits"], 1
    assert window.settings.session == ([f"{tmp_path}/net.py", "demo:digits"], 1)


def test_a_closed_model_is_the_last_one(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner)
    runner[-1].waiting.clear()
    window.session.close()
    assert window.services.reopening.last == "demo:small"


def test_the_start_opens_nothing_unless_the_settings_say_so(window: Window, runner: list[FakeRunner]) -> None:
    window.settings.add_recent("demo:digits")
    start(window)
    assert not opened(runner)
    window.actions_table.run("reopen_at_start")
    assert window.settings.reopens and window.actions_table.actions["reopen_at_start"].isChecked()
    start(window, has_unsaved=True)
    assert not opened(runner)
    start(window)
    assert opened(runner) == ["demo:digits"]
    window.actions_table.run("reopen_at_start")
    assert not window.settings.reopens


def test_the_choice_is_kept(tmp_path: Path) -> None:
    file = str(tmp_path / "s.ini")
    first = Settings(QSettings(file, QSettings.Format.IniFormat))
    assert not first.reopens
    first.reopens = True
    first.sync()
    assert Settings(QSettings(file, QSettings.Format.IniFormat)).reopens


def test_a_source_that_is_gone_is_said(window: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.espalier")
    window.settings.add_recent(gone)
    window.settings.reopens = True
    start(window)
    assert not opened(runner) and f"{gone} no longer exists." in window.banner.text
    window.banner.dismiss()
    window.actions_table.run("reopen")
    assert not opened(runner) and gone in window.banner.text


def test_code_does_not_run_at_the_start_before_it_is_allowed(
    window: Window, runner: list[FakeRunner], code: Path
) -> None:
    window.settings.add_recent(spec := f"{code}:make")
    window.settings.reopens = True
    start(window)
    assert not opened(runner) and wanted_code(spec) == code and "needs to run net.py" in window.banner.text
    next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Open").click()
    assert opened(runner) == [spec] and wanted_code(spec) is None
    job = runner[-1].waiting[0].job
    assert isinstance(job, OpenJob) and job.origin is Origin.TYPED


def test_code_that_is_allowed_for_good_is_opened_at_the_start(
    window: Window, runner: list[FakeRunner], code: Path
) -> None:
    decide(code, "always")
    window.settings.add_recent(spec := f"{code}:make")
    window.settings.reopens = True
    start(window)
    assert opened(runner) == [spec]
    code.write_text("raise SystemExit('changed')\n")
    runner[-1].waiting.clear()
    start(window)
    assert not opened(runner) and "net.py" in window.banner.text
