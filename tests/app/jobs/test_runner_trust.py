"""Code that a project names runs in the window's worker once the user allows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from espalier.app.jobs.runner import JobRunner
from espalier.model.document.project import save_project
from espalier.model.document.recipe import Step
from espalier.model.opening import Opened, open_any, reopen
from espalier.model.trust import SESSION, Origin, decide
from espalier.passes.jobs import worker
from espalier.passes.jobs.kinds import AnalyseJob, Done, Failed, OpenJob
from espalier.passes.running.splits import EvaluateOptions
from tests.app.jobs.test_runner import Listener

GATE = """
import torch

class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(64, 10)

    def forward(self, x):
        x = self.a(x.flatten(1))
        for _ in range(int(x.abs().max() > 100)):
            x = x / 2
        return x

def make():
    return Gate(), torch.zeros(1, 1, 8, 8)
"""


@pytest.mark.slow
def test_what_is_allowed_after_the_worker_began_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose model runs only with its code: refused until the user allows it, in the same worker."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setattr("espalier.model.trust._typed", set())
    code, path, work = tmp_path / "gate.py", tmp_path / "gate.espalier", tmp_path / "work"
    code.write_text(GATE)
    made = open_any(f"{code}:make", tmp_path / "made", origin=Origin.TYPED)
    save_project(made.project, made.store, path)
    monkeypatch.setattr("espalier.model.trust._typed", set())
    listener = Listener()
    runner = JobRunner(listener)
    try:
        event = listener.end(runner.submit("open", OpenJob(str(path), work)))
        assert isinstance(event, Done), event
        opened = event.result
        step = Step("evaluate", EvaluateOptions("demo:digits", limit=20))
        job = AnalyseJob(opened.project.graph, step, opened.locations, work, opened.project.source)
        before = listener.end(runner.submit("evaluate", job))
        assert isinstance(before, Failed) and "--trust" in before.hint
        decide(code, "once")
        after = listener.end(runner.submit("evaluate", job))
        assert isinstance(after, Done) and after.result.summary["n"] == 20
    finally:
        runner.close()


def test_a_source_is_opened_again_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its inputs and from its seed, once for each: another seed may give a factory another model."""
    monkeypatch.setattr(worker, "_STATE", worker._State())
    code = tmp_path / "gate.py"
    code.write_text(GATE)
    opened = open_any(f"{code}:make", tmp_path / "made", ("x",), 3, origin=Origin.TYPED)
    base, source = opened.project.base, opened.project.source
    asked = list[tuple[object, ...]]()

    def again(*args: object) -> Opened:
        asked.append(args[2:])
        return reopen(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(worker, "reopen", again)
    for seed in (3, 4, 3):
        assert set(worker._callables(base, replace(source, seed=seed), tmp_path / "work")) == set(opened.callables)
    assert source.inputs == ("x",) and asked == [(("x",), 3), (("x",), 4)] and opened.callables
