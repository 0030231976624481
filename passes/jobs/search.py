"""A search in the window's worker: each trial is on its way as soon as it is in the storage."""

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
    found: Callable[[Space | Trial | tuple[Trial, ...] | str], None],
    flush: Callable[[], object],
) -> str:
    """Run it; told first are what of its journal cannot be read, its space, and what it holds. Returns why it ended."""
    from espalier.passes.search.storage import damage_of
    from espalier.passes.search.study import Plan, begin

    for steps, graph in job.held:
        memo.remember(steps, graph)

    def heard(space: Space, trials: tuple[Trial, ...]) -> None:
        found(space)
        found(trials)

    plan = Plan(job.search, context, job.storage, job.resume, memo=memo, by_hand=job.by_hand, heard=heard)
    running = begin(plan)
    if damage := damage_of(running.study._storage):  # pyright: ignore[reportPrivateUsage]
        found(damage)
    for trial in running.trials():
        flush()
        found(trial)
    return running.why
