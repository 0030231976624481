"""Runs of kernels as files and in projects: saved, loaded, compared, kept, removed, carried to another document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.app.features.kernels.runs import KernelRuns
from espalier.app.features.kernels.state.runs import MEMBER, kernel_runs_of
from espalier.app.shell.window import Window
from espalier.kernels.bench.results import compared, load
from espalier.kernels.bench.spec import KernelError
from espalier.passes.jobs.kernel import KernelsJob
from espalier.passes.jobs.kinds import Done, OpenJob, OpenResult, PartialResult
from tests.gui.conftest import FakeRunner, open_small, small_project
from tests.gui.kernels.kernel_runs import begin, job, measured
from tests.gui.kernels.kernels_lab import row

pytestmark = pytest.mark.gui


def test_a_saved_file_is_what_the_command_line_reads(
    page: KernelRuns, runner: list[FakeRunner], tmp_path: Path
) -> None:
    measured(page, runner)
    assert page.run is not None
    page.state.save(page.run, tmp_path / "a.json")
    again = load(tmp_path / "a.json")
    assert again.rows == page.run.all_results.rows and again.ceilings == page.run.results.ceilings
    assert len(compared([again, again])) == 6
    page.load(tmp_path / "a.json")
    assert page.run.file == "a.json" and len(page.views.table.rows.shown) == 6
    assert list(page.state.measured()) == list(again.rows)  # what a file holds was not measured here


def test_files_that_are_none_are_refused_in_words(page: KernelRuns, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(KernelError, match="holds no measurements"):
        page.load(tmp_path / "a.json")
    with pytest.raises(KernelError, match="no file"):
        page.load(tmp_path / "b.json")
    assert not page.state.runs


@pytest.mark.slow
def test_runs_are_kept_with_the_project(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    document = window.session.document
    assert document is not None and not document.dirty
    measured(page, runner)
    assert document.dirty and MEMBER in document.project.extras
    extras = dict(document.project.extras)
    open_small(window, runner, replace(small_project(), extras=extras))
    assert page.run is not None and len(page.run.rows) == 6 and page.run.title == "softmax"
    assert page.run.results.ceilings is not None
    page.state.remove(page.run)
    document = window.session.document
    assert document is not None and MEMBER not in document.project.extras and page.run is None


@pytest.mark.slow
def test_what_cannot_be_read_is_said(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    for raw in (b"{", json.dumps({"version": 99, "runs": []}).encode(), b'{"version": 1, "runs": [{"results": {}}]}'):
        open_small(window, runner, replace(small_project(), extras={MEMBER: raw}))
        assert not page.state.runs and "cannot be read" in page._error.text()
        document = window.session.document
        assert document is not None and document.project.extras[MEMBER] == raw  # nothing is lost


@pytest.mark.slow
def test_a_run_goes_on_while_another_document_opens(page: KernelRuns, runner: list[FakeRunner], window: Window) -> None:
    measured(page, runner)
    info = begin(page, runner)
    runner[-1].tell(info, PartialResult(row()))
    open_second = small_project()
    window.session.open("demo:small")
    opening = job(runner, OpenJob)
    runner[-1].tell(opening, Done(OpenResult(open_second, {}, (), {})))
    held = kernel_runs_of(window.session)
    assert [len(r.rows) for r in held.runs.values()] == [1]  # the first one stays with its project
    assert any(isinstance(i.job, KernelsJob) for i in runner[-1].waiting)
    runner[-1].tell(info, Done(None))
    document = window.session.document
    assert document is not None and len(json.loads(document.project.extras[MEMBER])["runs"]) == 1
