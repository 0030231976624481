"""Which jobs may run side by side, and how much memory that takes. Free of Qt and torch."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, cast

from espalier.app.jobs.status import trains
from espalier.app.translation import tr
from espalier.model.errors import OptionsError
from espalier.model.memory import RESERVE, free
from espalier.passes.base import is_timed
from espalier.passes.costs.base import COSTS
from espalier.passes.jobs.kernel import AnswerJob, KernelsJob
from espalier.passes.jobs.kinds import AnalyseJob, Job, JobInfo, ReplayJob, SearchJob, SweepJob
from espalier.passes.search.goals import wanted

BASE = 750 << 20  # bytes of a worker that has loaded its libraries; measured: 0.65 GB
COPIES = 3  # of a model's weights that a job holds: as stored, as floats, and rounded or as gradients
GIBI = 1 << 30


def lanes() -> int:
    """How many jobs may run at the same time on this machine; each has a process with the threads of all processors."""
    return 2 if (os.cpu_count() or 1) <= 4 else 3


def is_long(job: Job) -> bool:
    """Whether a job can take many minutes: searches, sweeps, trainings and measurements of kernels."""
    return isinstance(job, SearchJob | SweepJob | KernelsJob | AnswerJob) or trains(job)


def runs_alone(job: Job) -> bool:
    """Whether a job measures times, which another job beside it would make longer."""
    match job:
        case KernelsJob() | AnswerJob():
            return True
        case AnalyseJob(step=step):
            return is_timed(step.pass_name)
        case SearchJob(search=search):
            with suppress(OptionsError):  # a search that is invalid fails when it runs
                return any(name in COSTS and COSTS.get(name).measure for name in wanted(search.spec).figures)
            return False
        case _:
            return False


def conflicts(one: Job, other: Job) -> bool:
    """Whether two jobs of a document must not run at the same time: both may store results of the same trainings."""
    folder = getattr(one, "workdir", None)
    both = all(isinstance(job, SearchJob | SweepJob | ReplayJob) and is_long(job) for job in (one, other))
    return both and folder == getattr(other, "workdir", None)


def memory(job: Job, has_worker: bool) -> int:
    """Estimated bytes that a job takes beside the others. `has_worker`: its process runs already."""
    locations = cast("dict[Any, Any]", getattr(job, "locations", None) or {})
    return (0 if has_worker else BASE) + COPIES * sum(place.size for place in locations.values())


def too_little_memory(info: JobInfo, has_worker: bool) -> str:
    """Why a job cannot run beside the others now; empty if it can."""
    need, present = memory(info.job, has_worker), free()
    if need <= present * (1 - RESERVE):
        return ""
    return tr("needs about {:.1f} GiB beside the running job, {:.1f} GiB are free", need / GIBI, present / GIBI)
