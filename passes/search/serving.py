"""A search in the window's worker: each trial is on its way as soon as it is in the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from passes.base import Context
from passes.replay import Memo
from passes.search.trial import Trial

if TYPE_CHECKING:
    from passes.jobs import SearchJob


def serve_search(
    job: SearchJob, context: Context, memo: Memo, found: Callable[[Trial], None], flush: Callable[[], object]
) -> int:
    """Run it; returns how many trials ended here."""
    from passes.search.study import Plan, run

    for steps, graph in job.held:
        memo.remember(steps, graph)
    count = 0
    for trial in run(Plan(job.search, context, job.storage, job.resume, memo=memo)):
        flush()
        found(trial)
        count += trial.state != "running"
    return count
