"""Where a job stands, in a line: what it does, how far it is, what it told last. No Qt."""

from __future__ import annotations

from espalier.app.words import count, duration, left, metric
from espalier.passes.base import is_lasting
from espalier.passes.jobs.kinds import Job, JobInfo, ReplayJob


def status_text(job: JobInfo, now: float, *, elapsed: bool = False) -> str:
    """Where a job stands, in one line; `elapsed`: how long it has run also beside how long it still takes."""
    if job.finished is not None:
        took = duration(job.took)
        return {"done": f"done in {took}", "failed": f"failed after {took}", "stopped": "stopped"}[job.state]
    if job.state == "waiting" and not job.begun:
        return "waiting for the job before it"
    done = _progress(job)
    state = () if job.state == "running" and any(done) else (job.state,)
    return " · ".join(p for p in (*state, *done, *_times(job, now, elapsed), figures(job)) if p)


def figures(job: JobInfo) -> str:
    """The last figures that the job told, those of the last validation before those of the training."""
    names = [n for n in ("validation accuracy", "training loss") if job.metrics.get(n)]
    return " · ".join(f"{n} {metric(n, job.metrics[n][-1][1])}" for n in names)


def can_keep(job: JobInfo) -> bool:
    """Whether a running job can end early with a result: it trains, and has begun to."""
    return job.state == "running" and bool(job.metrics) and trains(job.job)


def trains(work: Job) -> bool:
    """Whether a job has a step to run that tells figures while it does, such as a training."""
    if not isinstance(work, ReplayJob):
        return False
    known = work.known[0] if work.known else 0
    return any(is_lasting(s.pass_name) for s in work.recipe.active[known:])


def _progress(job: JobInfo) -> tuple[str, str]:
    p = job.progress
    if p is None:
        return "", ""
    return p.text, f"{count(p.done)} of {count(p.total)}" if p.total > 1 else ""


def _times(job: JobInfo, now: float, elapsed: bool) -> tuple[str, ...]:
    rest = job.remaining(now)
    worked = (duration(job.worked(now)),) if elapsed or rest is None else ()
    return worked if rest is None else (*worked, left(rest))


def doing(job: JobInfo | None, stopped: bool) -> str:
    """What the present job does; without one, whether the last one was stopped."""
    if job is None:
        return "Stopped." if stopped else ""
    if job.state != "running":
        return "Queued behind other jobs."
    return f"{job.progress.text[:1].upper()}{job.progress.text[1:]} …" if job.progress else "Begins …"
