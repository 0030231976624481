"""Runs of kernels as a worker could have made them."""

from __future__ import annotations

from espalier.app.features.kernels.runs import KernelRuns
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import Done, JobInfo, OpenJob, PartialResult, Started, Stopped
from tests.gui.conftest import FakeRunner
from tests.gui.kernels.kernels_lab import LIMITS, header, rows


def quiet(runner: list[FakeRunner]) -> None:
    """End the jobs that other panels began by themselves."""
    for info in [i for i in runner[-1].waiting if not isinstance(i.job, LabJob | KernelsJob | OpenJob)]:
        runner[-1].tell(info, Stopped())


def job(runner: list[FakeRunner], kind: type = KernelsJob) -> JobInfo:
    """The job of a kind that waits or runs."""
    return next(i for i in runner[-1].waiting if isinstance(i.job, kind))


def begin(page: KernelRuns, runner: list[FakeRunner], *names: str) -> JobInfo:
    """Run kernels; the worker has begun and told of the machine."""
    page.list.select(names or ("softmax",))
    page.setup.run()
    info = job(runner)
    assert isinstance(info.job, KernelsJob)
    runner[-1].tell(info, Started())
    runner[-1].tell(info, PartialResult(header(info.job.request)))
    runner[-1].tell(info, PartialResult(LIMITS))
    return info


def measured(page: KernelRuns, runner: list[FakeRunner], slower: float = 2.0) -> None:
    """A run of softmax to its end."""
    info = begin(page, runner)
    for each in rows(slower):
        runner[-1].tell(info, PartialResult(each))
    runner[-1].tell(info, Done(None))
