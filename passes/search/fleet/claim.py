"""Claims trials so that workers of one study together run no more than the budget, which storages do not count.

A worker first takes a trial, then counts the earlier ones. A trial beyond the budget is queued as a spare, for a search
that is resumed.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from espalier.model.borders import tried
from espalier.passes.search.fleet.heartbeat import BEAT, LOST, WORKER, id_of, signature, storage_of, worker_name
from espalier.passes.search.trial import violation_of

if TYPE_CHECKING:
    import optuna
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SPARE = "spare"  # attribute of a queued trial beyond the budget, without parameters
RECHECK = 0.2  # seconds until the next attempt while the budget is used up, as a trial may still be lost
UNSETTLED = 10.0  # seconds that a worker may take to claim its trial; one that dies meanwhile is detected as lost


def is_spare(trial: FrozenTrial) -> bool:
    """Whether a trial is queued beyond the budget."""
    return trial.state.name == "WAITING" and bool(trial.user_attrs.get(SPARE))


def claimed(study: Study, budget: int) -> optuna.Trial | None:
    """The next trial, queued or new, in the form of `Study.ask`; None if `budget` others have begun."""
    import optuna

    study._thread_local.cached_all_trials = None  # pyright: ignore[reportPrivateUsage]
    mine = _take(study)
    if not _is_within(study, mine, budget):
        _put_back(study, mine)
        time.sleep(RECHECK)
        return None
    storage = storage_of(study)
    storage.set_trial_user_attr(mine, WORKER, worker_name())
    if storage.get_trial(mine).user_attrs.get(SPARE):
        storage.set_trial_user_attr(mine, SPARE, False)
    return optuna.Trial(study, mine)


def _take(study: Study) -> int:
    """The id of a trial that this worker alone has: the first queued one, spares last, or a new one."""
    import optuna
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    storage = storage_of(study)
    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    for trial in sorted(waiting, key=lambda t: (is_spare(t), t.number)):
        with contextlib.suppress(UpdateFinishedTrialError):
            if storage.set_trial_state_values(id_of(trial), TrialState.RUNNING):
                storage.set_trial_user_attr(id_of(trial), BEAT, signature(0))
                return id_of(trial)
    # It has a heartbeat from the start, so that a worker that is killed before it claims the trial is detected.
    new = optuna.create_trial(state=TrialState.RUNNING, user_attrs={BEAT: signature(0)})
    return storage.create_new_trial(study._study_id, new)  # pyright: ignore[reportPrivateUsage]


def _is_within(study: Study, mine: int, budget: int) -> bool:
    """Whether fewer than `budget` trials come before this one: settled ones, and of unsettled ones those of lower
    number. Waits until that is certain.
    """
    until = time.monotonic() + UNSETTLED
    number = storage_of(study).get_trial(mine).number
    while True:
        others = [t for t in study.get_trials(deepcopy=False) if t.number != number and _counts(t)]
        if sum(t.number < number or is_settled(t) for t in others) >= budget:
            return False
        if len(others) < budget or time.monotonic() > until:
            return True
        time.sleep(0.02)


def _counts(trial: FrozenTrial) -> bool:
    """`Trial.counts` for a stored trial."""
    attrs = trial.user_attrs
    missed = trial.state.name == "PRUNED" and any(v > 0 for v in tried(lambda: violation_of(trial), {}).values())
    began = any(map(math.isfinite, trial.intermediate_values.values()))
    aside = attrs.get(LOST) or attrs.get("reused") or (missed and not began)
    return trial.state.name != "WAITING" and not aside


def is_settled(trial: FrozenTrial) -> bool:
    """Whether a trial is queued, claimed or ended."""
    return trial.state.name != "RUNNING" or bool(trial.user_attrs.get(WORKER))


def _put_back(study: Study, mine: int) -> None:
    from optuna.trial import TrialState

    storage = storage_of(study)
    if not storage.get_trial(mine).user_attrs.keys() - {BEAT}:  # one with parameters stays an ordinary queued trial
        storage.set_trial_user_attr(mine, SPARE, True)
    storage.set_trial_state_values(mine, TrialState.WAITING)
