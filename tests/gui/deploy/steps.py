"""What tests of the panel Deploy share: jobs that are answered by the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from espalier.model.registry import PASSES
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.jobs.kinds import AnalyseJob, Done, JobInfo, PartialResult, Started
from tests.gui.conftest import FakeRunner


def asked(runner: list[FakeRunner], name: str) -> JobInfo:
    """The waiting job of an analysis."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name)


def answer(runner: list[FakeRunner], name: str) -> Any:
    """Run what was asked for here, as the worker does."""
    info = asked(runner, name)
    assert isinstance(info.job, AnalyseJob)
    runner[-1].tell(info, Started())
    context = Context(WeightStore(Path("unwritten")), found=lambda part: runner[-1].tell(info, PartialResult(part)))
    _, report = PASSES.get(name).run(info.job.graph, info.job.step.options, context)
    runner[-1].tell(info, Done(report))
    return report
