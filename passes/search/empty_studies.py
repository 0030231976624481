"""Studies that were left before their first trial: nothing in them is to be kept, so that they block no name."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from espalier.passes.base import Cancelled
from espalier.passes.search.fleet.heartbeat import is_gone, signature, storage_of
from espalier.passes.search.refine import FRONT
from espalier.passes.search.storage import load_study, study_names

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

BEGUN = "begun"  # a study's own attribute: the process that made it


def note_creator(study: Study) -> None:
    """Note that this process made a study."""
    study.set_user_attr(BEGUN, signature(0))


def remove_abandoned(storage: BaseStorage, name: str) -> bool:
    """Remove a study in which no trial began and whose maker, a process of this machine, is no more."""
    if name not in study_names(storage):
        return False
    study = load_study(storage, name)
    if not (is_gone(study.user_attrs.get(BEGUN)) and _is_empty(study)):
        return False
    _remove(study)
    return True


@contextlib.contextmanager
def removed_if_empty(study: Study) -> Generator[None]:
    """Remove a study of this process where what runs inside fails before a trial began; who stops it may go on."""
    try:
        yield
    except Cancelled:
        raise
    except Exception:
        with contextlib.suppress(Exception):  # what was raised is the news, not that the storage is away as well
            if study.user_attrs.get(BEGUN, [])[1:] == signature(0)[1:] and _is_empty(study):
                _remove(study)
        raise


def _is_empty(study: Study) -> bool:
    """Whether no trial began, nor was one asked for by hand: what a forecast proposed it proposes again."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    return all(t.state is TrialState.WAITING and t.user_attrs.get("origin") == FRONT for t in trials)


def _remove(study: Study) -> None:
    import optuna

    optuna.delete_study(study_name=study.study_name, storage=storage_of(study))
