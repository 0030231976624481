"""Code that a project names runs in the window's worker once the user allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.jobs.runner import JobRunner
from model.opening import open_any
from model.project import save_project
from model.recipe import Step
from model.trust import SESSION, Origin, decide
from passes.analysis.evaluate import EvaluateOptions
from passes.jobs import AnalyseJob, Done, Failed, OpenJob
from tests.passes.test_jobs import Listener

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


def test_what_is_allowed_after_the_worker_began_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose model runs only with its code: refused until the user allows it, in the same worker."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setattr("model.trust._typed", set())
    code, path, work = tmp_path / "gate.py", tmp_path / "gate.espalier", tmp_path / "work"
    code.write_text(GATE)
    made = open_any(f"{code}:make", tmp_path / "made", origin=Origin.TYPED)
    save_project(made.project, made.store, path)
    monkeypatch.setattr("model.trust._typed", set())
    listener = Listener()
    runner = JobRunner(listener)
    try:
        event = listener.end(runner.submit("open", OpenJob(str(path), work)))
        assert isinstance(event, Done), event
        opened = event.result
        step = Step("evaluate", EvaluateOptions("demo:digits", limit=20))
        job = AnalyseJob(
            opened.project.graph, step, opened.locations, work, f"{code}:make", opened.project.source.reading
        )
        before = listener.end(runner.submit("evaluate", job))
        assert isinstance(before, Failed) and "--trust" in before.hint
        decide(code, "once")
        after = listener.end(runner.submit("evaluate", job))
        assert isinstance(after, Done) and after.result.summary["n"] == 20
    finally:
        runner.close()
