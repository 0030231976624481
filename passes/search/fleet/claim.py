"""Places of a search among its workers: storages give out trials one by one, but none of them counts to a number.

A worker takes a trial first and looks then who was before it; one too many waits as a spare, for a search that goes on.
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

SPARE = "spare"  # a trial that waits, has no choices yet, and is none of those that were asked for
ELSEWHERE = 0.2  # seconds until another look, where all places are taken and one may become free
UNSETTLED = 10.0  # seconds that a worker may take from its trial to its place; one that died there is lost anyway


def is_spare(trial: FrozenTrial) -> bool:
    """Whether a trial only waits to be one."""
    return trial.state.name == "WAITING" and bool(trial.user_attrs.get(SPARE))


def claimed(study: Study, places: int) -> optuna.Trial | None:
    """The next trial, one that waits or a new one, as `Study.ask` gives it; None where `places` others have begun."""
    import optuna

    study._thread_local.cached_all_trials = None  # pyright: ignore[reportPrivateUsage]
    mine = _taken(study)
    if not _has_place(study, mine, places):
        _lay_aside(study, mine)
        time.sleep(ELSEWHERE)
        return None
    storage = storage_of(study)
    storage.set_trial_user_attr(mine, WORKER, worker_name())
    if storage.get_trial(mine).user_attrs.get(SPARE):
        storage.set_trial_user_attr(mine, SPARE, False)
    return optuna.Trial(study, mine)


def _taken(study: Study) -> int:
    """A trial that this worker alone has: the first that waits, spares after all others, else a new one."""
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
    # It beats from its first moment: a worker that is killed before it has its place is known to be dead.
    new = optuna.create_trial(state=TrialState.RUNNING, user_attrs={BEAT: signature(0)})
    return storage.create_new_trial(study._study_id, new)  # pyright: ignore[reportPrivateUsage]


def _has_place(study: Study, mine: int, places: int) -> bool:
    """Of workers that ask at one moment the lower number goes first; it waits for those that may be there already."""
    until = time.monotonic() + UNSETTLED
    number = storage_of(study).get_trial(mine).number
    while True:
        others = [t for t in study.get_trials(deepcopy=False) if t.number != number and _counts(t)]
        if sum(t.number < number or is_settled(t) for t in others) >= places:
            return False
        if len(others) < places or time.monotonic() > until:
            return True
        time.sleep(0.02)


def _counts(trial: FrozenTrial) -> bool:
    """As `Trial.counts`, of a trial as the storage has it."""
    attrs = trial.user_attrs
    missed = trial.state.name == "PRUNED" and any(v > 0 for v in tried(lambda: violation_of(trial), {}).values())
    began = any(map(math.isfinite, trial.intermediate_values.values()))
    aside = attrs.get(LOST) or attrs.get("reused") or (missed and not began)
    return trial.state.name != "WAITING" and not aside


def is_settled(trial: FrozenTrial) -> bool:
    """Whether a trial waits for its turn, has its place, or has ended."""
    return trial.state.name != "RUNNING" or bool(trial.user_attrs.get(WORKER))


def _lay_aside(study: Study, mine: int) -> None:
    from optuna.trial import TrialState

    storage = storage_of(study)
    if not storage.get_trial(mine).user_attrs.keys() - {BEAT}:  # one with choices of its own waits as what it is
        storage.set_trial_user_attr(mine, SPARE, True)
    storage.set_trial_state_values(mine, TrialState.WAITING)
