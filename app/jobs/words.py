"""What a job that a panel began is at, in a line. No Qt."""

from __future__ import annotations

from espalier.passes.jobs.kinds import JobInfo


def doing(job: JobInfo | None, stopped: bool) -> str:
    """What the present job does; without one, whether the last one was stopped."""
    if job is None:
        return "Stopped." if stopped else ""
    if job.state != "running":
        return "Waits for the jobs before it."
    return f"{job.progress.text[:1].upper()}{job.progress.text[1:]} …" if job.progress else "Begins …"
