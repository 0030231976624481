"""Places of a search: workers that ask at one moment begin exactly as many trials as were asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from espalier.passes.search.fleet.claim import claimed, is_spare
from espalier.passes.search.fleet.heartbeat import (
    BEAT,
    LOST,
    RETRY,
    WORKER,
    enqueue_again,
    fail,
    give_back,
    id_of,
    signature,
    storage_of,
)
from espalier.passes.search.records import trials_of
from espalier.passes.search.storage import load_study, open_storage, open_study

WORKERS, PLACES = 4, 9


def together(work: Callable[[int], Any]) -> list[Any]:
    """What each of several workers comes to, all at work at once."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, range(WORKERS)))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["journal", "db"])
def test_as_many_begin_as_were_asked_for(ending: str, tmp_path: Path) -> None:
    url = str(tmp_path / f"a.{ending}")
    open_study(open_storage(url), "a", ("maximize",), "x")
    gate = threading.Barrier(WORKERS)

    def work(_: int) -> list[int]:
        study = load_study(open_storage(url), "a")
        found = []
        for _ in range(PLACES // WORKERS + 1):  # 12 wishes for 9 places; the last four at once for one
            gate.wait(60)
            if trial := claimed(study, PLACES):
                found.append(trial.number)
        return found

    numbers = [n for part in together(work) for n in part]
    study = load_study(open_storage(url), "a")
    running = [t.number for t in study.trials if t.state == TrialState.RUNNING]
    assert sorted(numbers) == sorted(running) and len(running) == PLACES
    assert all(is_spare(t) for t in study.trials if t.number not in numbers)
    assert [t.number for t in trials_of(study)] == sorted(numbers)  # spares are nobody's trials


def test_a_spare_is_the_first_trial_of_a_search_that_goes_on(tmp_path: Path) -> None:
    study = open_study(open_storage(str(tmp_path / "a.journal")), "a", ("maximize",), "x")
    assert (first := claimed(study, 1)) and first.number == 0
    assert claimed(study, 1) is None
    assert [t.state.name for t in study.trials] == ["RUNNING", "WAITING"]
    again = claimed(study, 2)
    assert again is not None and again.number == 1 and len(study.trials) == 2
    give_back(study, id_of(again))
    assert len(trials_of(study)) == 2  # one that was begun is no spare any more


def test_who_takes_a_waiting_trial_signs_it_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in between, its worker is known to be dead; else its trial would count, and nobody would run it."""
    study = open_study(open_storage(str(tmp_path / "a.journal")), "a", ("maximize",), "x")
    study.enqueue_trial({})
    storage: Any = storage_of(study)

    def killed(trial_id: int, name: str, value: Any) -> None:
        if name == WORKER:
            raise KeyboardInterrupt
        write(trial_id, name, value)

    write = storage.set_trial_user_attr
    monkeypatch.setattr(storage, "set_trial_user_attr", killed)
    with pytest.raises(KeyboardInterrupt):
        claimed(study, 1)
    assert study.trials[0].state == TrialState.RUNNING and study.trials[0].user_attrs[BEAT][:3] == signature(0)[:3]


def test_what_was_lost_goes_before_spares(tmp_path: Path) -> None:
    study = open_study(open_storage(str(tmp_path / "a.journal")), "a", ("maximize",), "x")
    assert (first := claimed(study, 1)) and claimed(study, 1) is None
    assert fail(study, id_of(first), "gone", lost=True)
    enqueue_again(study, study.trials[0], [0])
    assert study.trials[0].user_attrs[LOST] and (again := claimed(study, 1))
    assert study.trials[again.number].user_attrs[RETRY] == [0]
    assert claimed(study, 1) is None and sum(is_spare(t) for t in study.trials) == 1


def test_of_two_that_ask_at_once_the_lower_goes_first(tmp_path: Path) -> None:
    """The other has not looked yet: it will see the lower one, and lay its own aside."""
    study = open_study(open_storage(str(tmp_path / "a.journal")), "a", ("maximize",), "x")
    study.enqueue_trial({}, user_attrs={"origin": "hand"})
    held: Any = study
    storage = held._storage
    other = storage.create_new_trial(held._study_id)  # a worker that is about to look
    done = threading.Event()
    timer = threading.Timer(0.3, lambda: (storage.set_trial_state_values(other, TrialState.WAITING), done.set()))
    timer.start()
    mine = claimed(study, 1)
    assert done.is_set() and mine is not None and mine.number == 0
    assert study.trials[0].user_attrs[WORKER] and study.trials[0].state == TrialState.RUNNING


@pytest.mark.slow
def test_a_database_that_several_begin_at_once(tmp_path: Path) -> None:
    for turn in range(3):
        url = str(tmp_path / f"{turn}.db")
        studies = together(lambda _, url=url: open_study(open_storage(url), "a", ("maximize",), "x"))
        assert [s.study_name for s in studies] == ["a"] * WORKERS
        assert len(open_storage(url).get_all_studies()) == 1


@pytest.mark.slow
def test_two_never_take_one_waiting_trial_of_a_database(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    study = open_study(open_storage(url), "a", ("maximize",), "x")
    for _ in range(12):
        study.enqueue_trial({})

    def work(_: int) -> list[int]:
        own = load_study(open_storage(url), "a")
        return [t.number for _ in range(3) if (t := claimed(own, 100))]

    assert sorted(n for part in together(work) for n in part) == list(range(12))
