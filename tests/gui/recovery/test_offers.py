"""The offer to recover what a dead window held of the model that is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox, QPushButton

from espalier.app.locks import hold
from espalier.app.session.edit_journal import ENDING
from espalier.app.session.recovery import unsaved_projects
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import NoOptions
from espalier.passes.jobs.kinds import Failed, JobInfo, OpenJob, OpenResult, Started, Stopped
from tests.gui.conftest import FakeRunner, small_project
from tests.gui.recovery.dead_windows import edit, left_behind, open_small

pytestmark = pytest.mark.gui


def small_left(folder: Path, number: int = 1, source: str | None = None) -> Path:
    """What is left of the small model, which was never saved."""
    spec = small_project().source.spec if source is None else source
    return left_behind(folder, number, title="Small", path="", source=spec)


def test_a_model_that_is_opened_again_offers_what_a_dead_window_held_of_it(
    window: Window, runner: list[FakeRunner], folder: Path
) -> None:
    """Also where it is named on the command line, and no welcome page is seen; of other models nothing is said."""
    file = left_behind(folder)
    open_small(window.session, runner[-1])
    assert not window.banner.text
    for source, offered in (("/elsewhere/small.py:Small", False), (small_project().source.spec, True)):
        small_left(folder, source=source)
        open_small(window.session, runner[-1])
        assert ("A window with Small ended without saving" in window.banner.text) == offered
    buttons = {b.text(): b for b in window.banner.findChildren(QPushButton)}
    buttons["Recover"].click()
    job = runner[-1].waiting[-1].job
    assert isinstance(job, OpenJob) and Path(job.spec).samefile(file)
    small_left(folder, 0)
    runner[-1].finish(OpenResult(small_project(), {}, (), {}))
    assert not window.banner.text  # of one that was recovered no older copy is offered


def test_a_copy_that_is_offered_can_be_discarded(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = small_left(folder)
    open_small(window.session, runner[-1])
    next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Discard").click()
    assert not window.banner.text and not file.exists() and not unsaved_projects()


def test_a_copy_that_another_window_took_is_left_alone(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    for button, told in (("Recover", "The unsaved work on Small no longer exists."), ("Discard", "")):
        file = small_left(folder)
        open_small(window.session, runner[-1])
        other = hold(file.with_suffix(ENDING))
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == button).click()
        assert other and file.exists() and not runner[-1].waiting and told in window.banner.text
        other.release()


def test_an_offer_comes_back_after_another_message(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = small_left(folder)
    open_small(window.session, runner[-1])
    banner = window.banner

    def press(title: str) -> None:
        [b for b in banner.findChildren(QPushButton) if b.text() == title][-1].click()

    banner.show_message("m.onnx is written.")
    assert banner.text == "m.onnx is written."
    press("Dismiss")
    assert "A window with Small ended" in banner.text
    banner.show_error(EspalierError("The width is 99.", "Choose 2 to 16."))
    window.session.run_pass("remove_dropout", NoOptions())  # the next edit solves it
    assert "A window with Small ended" in banner.text
    press("Dismiss")
    assert not banner.text and file.exists()
    banner.show_message("m.onnx is written.")
    press("Dismiss")
    assert not banner.text, "what was dismissed itself stays away"
    open_small(window.session, runner[-1])
    banner.show_message("m.onnx is written.")
    open_small(window.session, runner[-1])
    press("Discard")
    assert not banner.text and not file.exists()


OFFERED = "A window with Small ended"


GONE = Failed("The worker process ended unexpectedly.", "Run the job again.")


def offered(window: Window, runner: list[FakeRunner], folder: Path) -> Path:
    """A model whose dead window's copy is offered."""
    window.live.enabled = False
    file = small_left(folder)
    open_small(window.session, runner[-1])
    for info in list(runner[-1].waiting):
        runner[-1].tell(info, Stopped())
    assert OFFERED in window.banner.text
    return file


def silent_job(window: Window, runner: list[FakeRunner]) -> JobInfo:
    """One whose asker tells of its error itself, as "Look at the data" does."""
    wish = DivergenceOptions()
    return window.session.analyse("Look at the data", Step("divergence", wish), lambda _: None, failed=lambda _: None)


@pytest.mark.parametrize("told", ["", "m.onnx is written."])
def test_a_job_that_fails_silently_takes_no_message_away(
    window: Window, runner: list[FakeRunner], folder: Path, told: str
) -> None:
    offered(window, runner, folder)
    if told:
        window.banner.show_message(told)
    text = window.banner.text
    for end in (GONE, Stopped()):
        info = silent_job(window, runner)
        runner[-1].tell(info, Started())
        assert window.banner.text == text
        runner[-1].tell(info, end)


def test_an_error_that_is_shown_is_only_of_its_own_job(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    offered(window, runner, folder)
    window.session.run_pass("remove_dropout", NoOptions())  # instant, so of no job
    own = window.session.submit("Exclusive", OpenJob("x", folder), lambda _: None)
    runner[-1].tell(own, GONE)
    assert GONE.message in window.banner.text
    runner[-1].tell(silent_job(window, runner), GONE)  # in the same words
    runner[-1].tell(silent_job(window, runner), Started())
    assert GONE.message in window.banner.text
    again = window.session.submit("Exclusive", OpenJob("x", folder), lambda _: None)
    runner[-1].tell(again, Started())
    assert OFFERED in window.banner.text


@pytest.mark.parametrize("end", [GONE, Stopped()])
def test_an_offer_stays_where_another_model_does_not_come(
    window: Window, runner: list[FakeRunner], folder: Path, end: Failed | Stopped
) -> None:
    offered(window, runner, folder)
    window.begin_opening("demo:other")
    info = runner[-1].waiting[-1]
    runner[-1].tell(info, Started())
    runner[-1].tell(info, end)
    if end is GONE:
        assert GONE.message in window.banner.text
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Dismiss" and b.isEnabled()).click()
    assert OFFERED in window.banner.text


def test_an_offer_stays_where_changes_are_not_given_up(window: Window, runner: list[FakeRunner], folder: Path) -> None:
    file = offered(window, runner, folder)
    edit(window.session)
    assert window.session.document and window.session.document.dirty

    def recover(answer: QMessageBox.StandardButton) -> None:
        next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Recover").click()
        box = window.findChildren(QMessageBox)[-1]
        box.button(answer).click()

    recover(QMessageBox.StandardButton.Cancel)
    assert OFFERED in window.banner.text and not runner[-1].waiting
    recover(QMessageBox.StandardButton.Discard)
    job = runner[-1].waiting[-1].job
    assert isinstance(job, OpenJob) and Path(job.spec).samefile(file) and not window.banner.text
