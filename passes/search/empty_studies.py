"""Removes studies that were abandoned before their first trial, so that their names stay free."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from espalier.passes.base import Cancelled
from espalier.passes.search.fleet.heartbeat import process_ended, signature, storage_of
from espalier.passes.search.refine import FRONT
from espalier.passes.search.storage import load_study, study_names

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

BEGUN = "begun"  # attribute of a study: the signature of the process that created it


def note_creator(study: Study) -> None:
    """Record this process as the creator of a study."""
    study.set_user_attr(BEGUN, signature(0))


def remove_abandoned(storage: BaseStorage, name: str) -> bool:
    """Remove a study without a started trial whose creator, a process of this machine, has ended; returns whether."""
    if name not in study_names(storage):
        return False
    study = load_study(storage, name)
    if not (process_ended(study.user_attrs.get(BEGUN)) and _is_empty(study)):
        return False
    _remove(study)
    return True


@contextlib.contextmanager
def removed_if_empty(study: Study) -> Generator[None]:
    """Remove a study that this process created if the block raises before a trial began; a cancelled one stays."""
    try:
        yield
    except Cancelled:
        raise
    except Exception:
        with contextlib.suppress(Exception):  # the first error is raised, not that the storage fails too
            if study.user_attrs.get(BEGUN, [])[1:] == signature(0)[1:] and _is_empty(study):
                _remove(study)
        raise


def _is_empty(study: Study) -> bool:
    """Whether no trial began or was enqueued by hand; predicted ones would be predicted again."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    return all(t.state is TrialState.WAITING and t.user_attrs.get("origin") == FRONT for t in trials)


def _remove(study: Study) -> None:
    import optuna

    optuna.delete_study(study_name=study.study_name, storage=storage_of(study))
