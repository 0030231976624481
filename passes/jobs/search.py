"""A search in the window's worker: each trial is sent as soon as it is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from espalier.passes.base import Context
from espalier.passes.recipes.replay import Memo
from espalier.passes.search.space import Space
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.jobs.kinds import SearchJob


def serve_search(
    job: SearchJob,
    context: Context,
    memo: Memo,
    send: Callable[[Space | Trial | tuple[Trial, ...] | str], None],
    flush: Callable[[], object],
) -> str:
    """Run a search; returns why it ended. `send` first takes a text on damaged records, the space and stored trials."""
    from espalier.passes.search.storage import damage_of
    from espalier.passes.search.study import Plan, begin

    for steps, graph in job.graphs:
        memo.remember(steps, graph)

    def on_start(space: Space, trials: tuple[Trial, ...]) -> None:
        send(space)
        send(trials)

    plan = Plan(job.search, context, job.storage, job.resume, memo=memo, by_hand=job.by_hand, on_start=on_start)
    study_run = begin(plan)
    if damage := damage_of(study_run.study._storage):  # pyright: ignore[reportPrivateUsage]
        send(damage)
    for trial in study_run.trials():
        flush()
        send(trial)
    return study_run.why
