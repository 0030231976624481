"""A project that names code opens with its stored graph and asks; the answer is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QPushButton

from espalier.app.shell.window import Window
from espalier.model.trust import Origin, TrustError, wanted_code
from espalier.passes.jobs.kinds import AnalyseJob, Failed, OpenJob, OpenResult
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A stranger's file."""
    file = tmp_path / "net.py"
    file.write_text("raise SystemExit\n")
    return file


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("espalier.model.trust._typed", set())


def arrive(window: Window, runner: list[FakeRunner], spec: str, opened: str = "sent.espalier") -> OpenJob:
    """Open what somebody sent, of a model that needs its code."""
    window.begin_opening(opened)
    made = small_project()
    recorded = replace(made.base, runs="module")
    made = replace(made, source=replace(made.source, spec=spec), base=recorded, graph=recorded)
    job = runner[-1].waiting[0].job
    assert isinstance(job, OpenJob)
    runner[-1].finish(OpenResult(made, {}, (), {}))
    return job


def buttons(window: Window) -> dict[str, QPushButton]:
    return {b.text(): b for b in window.banner.findChildren(QPushButton) if not b.isHidden()}


@pytest.mark.slow
def test_it_asks_and_hears_the_answer(window: Window, runner: list[FakeRunner], code: Path) -> None:
    (code.parent / "layers.py").write_text("")
    arrive(window, runner, f"{code}:make")
    assert "import 1 file of its folder" in window.banner.text
    assert window.session.document is not None and window.canvas.isVisible()
    assert window.banner.isVisible() and {"Allow for this project", "Allow once", "Never"} <= set(buttons(window))
    buttons(window)["Allow once"].click()
    assert wanted_code(f"{code}:make") is None and not window.banner.isVisible()


def test_what_fails_for_want_of_the_code_asks_again(window: Window, runner: list[FakeRunner], code: Path) -> None:
    """In place of an error without a way out; once allowed, what was asked for is measured."""
    arrive(window, runner, f"{code}:make")
    buttons(window)["Dismiss"].click()
    window.session.evaluate(EvaluateOptions(data="some.csv", limit=7))
    error = TrustError(f"This project names code: make() of {code.resolve()}, which could do anything.", "Read it.")
    runner[-1].tell(runner[-1].waiting[0], Failed(error.message, error.hint))
    QApplication.processEvents()  # new buttons of a banner that shows appear then
    assert "Allow once" in buttons(window) and not runner[-1].waiting
    buttons(window)["Allow once"].click()
    (again,) = (j.job for j in runner[-1].waiting)
    assert isinstance(again, AnalyseJob) and again.step.options == EvaluateOptions(data="some.csv", limit=7)
    assert wanted_code(f"{code}:make") is None and not window.banner.isVisible()


def test_never_is_not_asked_again(window: Window, runner: list[FakeRunner], code: Path) -> None:
    arrive(window, runner, f"{code}:make")
    buttons(window)["Never"].click()
    window.session.close()
    arrive(window, runner, f"{code}:make")
    assert not window.banner.isVisible() and wanted_code(f"{code}:make") == code


def test_what_the_user_names_is_not_asked(window: Window, runner: list[FakeRunner], code: Path) -> None:
    job = arrive(window, runner, f"{code}:make", f"{code}:make")
    assert job.origin is Origin.TYPED and not window.banner.isVisible()


def test_recent_files_are_what_the_user_opened(window: Window, runner: list[FakeRunner], code: Path) -> None:
    """A packed file may call its source anything: its name does not become something to click."""
    arrive(window, runner, f"{code}:make", "sent.packed.safetensors")
    assert f"{code}:make" not in window.settings.recent and "sent.packed.safetensors" in window.settings.recent
