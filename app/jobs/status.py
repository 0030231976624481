"""The state of a job as one line: activity, progress, times and last metrics. Free of Qt."""

from __future__ import annotations

from espalier.app.number_text import count, duration, left, metric
from espalier.app.translation import message, tr, translated
from espalier.passes.base import is_lasting
from espalier.passes.jobs.kinds import Job, JobInfo, ReplayJob
from espalier.passes.training.curve import SAMPLES, VALIDATION

STATES = translated({"waiting": "waiting", "running": "running", "paused": "paused"})


def status_text(job: JobInfo, now: float, *, elapsed: bool = False) -> str:
    """The state of a job as one line. `elapsed`: show the elapsed time also if the remaining time is known."""
    if job.finished is not None:
        took = duration(job.took)
        return {"done": tr("done in {}", took), "failed": tr("failed after {}", took), "stopped": tr("stopped")}[
            job.state
        ]
    if job.state == "waiting" and not job.begun:
        return tr("queued: {}", job.waits) if job.waits else tr("queued")
    done = _progress(job)
    state = () if job.state == "running" and any(done) else (STATES.get(job.state, job.state),)
    return " · ".join(p for p in (*state, *done, *_times(job, now, elapsed), figures(job)) if p)


def figures(job: JobInfo) -> str:
    """The last metrics of a job: validation accuracy, then training loss."""
    main = next((n for n in job.metrics if n.startswith(VALIDATION) and n not in (SAMPLES, f"{VALIDATION}loss")), "")
    names = [n for n in (main, "training loss") if job.metrics.get(n)]
    return " · ".join(f"{tr(n)} {metric(n, job.metrics[n][-1][1])}" for n in names)


def can_keep(job: JobInfo) -> bool:
    """Whether a running job can stop early and keep a result: a training that has sent metrics."""
    return job.state == "running" and bool(job.metrics) and trains(job.job)


def trains(work: Job) -> bool:
    """Whether a job runs a step that sends metrics, such as a training."""
    if not isinstance(work, ReplayJob):
        return False
    replayed = work.cached[0] if work.cached else 0
    return any(is_lasting(s.pass_name) for s in work.recipe.active[replayed:])


def _progress(job: JobInfo) -> tuple[str, str]:
    progress = job.progress
    if progress is None:
        return "", ""
    return message(progress.text), tr(
        "{} of {}", count(progress.done), count(progress.total)
    ) if progress.total > 1 else ""


def _times(job: JobInfo, now: float, elapsed: bool) -> tuple[str, ...]:
    remaining = job.remaining(now)
    worked = (duration(job.worked(now)),) if elapsed or remaining is None else ()
    return worked if remaining is None else (*worked, left(remaining))


def activity(job: JobInfo | None, stopped: bool) -> str:
    """The activity of a job as a sentence; without a job, whether the last one was stopped."""
    if job is None:
        return tr("Stopped.") if stopped else ""
    if job.state != "running":
        return tr("Queued behind other jobs.")
    text = message(job.progress.text) if job.progress else tr("Starting")
    return f"{text[:1].upper()}{text[1:]} …"
