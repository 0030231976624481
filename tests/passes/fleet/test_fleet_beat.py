"""Heartbeats and lost trials, files beside storages, claims over gRPC, room for workers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from espalier.model.errors import StorageError
from espalier.model.memory import free
from espalier.passes.search import outage
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.fleet.files import CHUNK, Files, FolderFiles, files_of
from espalier.passes.search.fleet.heartbeat import BEAT, ERROR, LOST, RETRY, WorkerMonitor, beating, give_back, id_of
from espalier.passes.search.fleet.memory import Capacity, resident
from espalier.passes.search.fleet.serve import is_loopback, serve
from espalier.passes.search.samplers import sampler_of
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.storage import load_study, open_storage, open_study
from tests.passes.fleet.fleet_cases import cluster, postgres, server
from tests.patience import until

__all__ = ["cluster", "postgres", "server"]
FORMATS = ["integer(width=8)", "mxint(width=4)"]


@pytest.fixture(params=["journal", "db"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> optuna.Study:
    """An empty study on a journal, and in a database."""
    return open_study(open_storage(str(tmp_path / f"a.{request.param}")), "a", ("maximize",), "x")


def dead() -> list[object]:
    """The beat of a process of this machine that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        began = heartbeat._began(process.pid)
        process.wait()
    return [3, heartbeat.home(), process.pid, began or "1.00"]


def begun(study: optuna.Study, **attrs: object) -> optuna.Trial:
    """A trial that runs, with a choice made."""
    trial = study.ask()
    trial.suggest_categorical("a", FORMATS)
    for name, value in attrs.items():
        trial.set_user_attr(name, value)
    return trial


def states(study: optuna.Study) -> list[str]:
    """The trials' states."""
    return [t.state.name for t in study.trials]


def test_a_dead_process_is_known_at_once_and_its_trial_offered_again(study: optuna.Study) -> None:
    lost = begun(study, **{BEAT: dead(), "origin": "front", "figures": {"loss": 1.0}})
    assert WorkerMonitor(study, silence=60).lost() == [lost.number]
    assert states(study) == ["FAIL", "WAITING"]
    failed, waiting = study.trials
    assert failed.user_attrs[LOST] and "is gone" in failed.user_attrs[ERROR]
    assert waiting.params == failed.params
    assert waiting.user_attrs == {"origin": "front", RETRY: [0]}
    again = study.ask()
    assert again.number == 1 and again.suggest_categorical("a", FORMATS) == failed.params["a"]


def test_what_a_worker_chose_last_is_offered_too(study: optuna.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may choose between the moment when it is looked at and its death."""
    trial = study.ask()
    trial.set_user_attr(BEAT, dead())

    def late(looked_at: optuna.trial.FrozenTrial) -> bool:
        if not trial.params:
            trial.suggest_categorical("a", FORMATS)
        return True

    monkeypatch.setattr(heartbeat, "is_dead", late)
    assert WorkerMonitor(study, silence=60).lost() == [0]
    assert study.trials[1].params == study.trials[0].params == trial.params != {}


def test_two_that_watch_offer_it_once(tmp_path: Path) -> None:
    """Not so on SQLite, which has no locks of rows: the README gives it to one worker."""
    study = open_study(open_storage(str(tmp_path / "a.journal")), "a", ("maximize",), "x")
    begun(study, **{BEAT: dead()})
    watches = [WorkerMonitor(load_study(heartbeat.storage_of(study), "a"), silence=60) for _ in range(4)]
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda w=w: found.append(w.lost())) for w in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[], [], [], [0]]
    assert states(study) == ["FAIL", "WAITING"]


def test_silence_is_timed_by_who_looks(study: optuna.Study) -> None:
    begun(study, **{BEAT: [0, "another machine", 1, "1.00"]})
    watch = WorkerMonitor(study, silence=0.15)
    assert watch.lost() == []
    time.sleep(0.1)
    storage = heartbeat.storage_of(study)
    storage.set_trial_user_attr(id_of(study.trials[0]), BEAT, [1, "another machine", 1, "1.00"])
    time.sleep(0.1)
    assert watch.lost() == []  # it beat once more meanwhile
    time.sleep(0.2)
    assert watch.lost() == [0]
    assert "silent" in study.trials[0].user_attrs[ERROR]


def test_nobody_is_lost_because_the_storage_was_away(study: optuna.Study) -> None:
    begun(study, **{BEAT: [0, "another machine", 1, "1.00"]})
    watch, outage = WorkerMonitor(study, silence=0.15), heartbeat.OUTAGE
    with outage.reporting(lambda text: None):
        assert watch.lost() == []
        outage.begin("it", "gone")
        time.sleep(0.2)
        assert watch.lost() == []  # it answers again, before anybody has said so
        outage.end("it")
        watch.silence = 60
        assert watch.lost() == []
        watch.silence = 0.15
        time.sleep(0.2)
        assert watch.lost() == [0]


def test_who_beats_is_not_lost(study: optuna.Study) -> None:
    trial = begun(study)
    watch = WorkerMonitor(study, silence=0.001)
    with beating(study, id_of(trial), interval=0.05):
        for count in range(4):
            until(lambda count=count: study.trials[0].user_attrs.get(BEAT, [0])[0] > count)
            assert watch.lost() == []
    study.tell(trial, 1.0)
    assert states(study) == ["COMPLETE"]


def test_what_kills_each_worker_is_given_up(study: optuna.Study) -> None:
    watch = WorkerMonitor(study, silence=60)
    for round_ in range(heartbeat.RETRIES + 1):
        begun(study, **{BEAT: dead()})
        assert watch.lost() == [round_]
    assert states(study) == ["FAIL"] * (heartbeat.RETRIES + 1)
    assert "abandoned" in study.trials[-1].user_attrs[ERROR]


def test_a_trial_is_given_back_as_it_was(study: optuna.Study) -> None:
    trial = begun(study)
    chosen = trial.params["a"]
    give_back(study, id_of(trial))
    assert states(study) == ["WAITING"]
    again = study.ask()
    assert again.number == 0 and again.suggest_categorical("a", FORMATS) == chosen
    study.tell(again, 1.0)
    give_back(study, id_of(again))  # too late: it has ended
    assert states(study) == ["COMPLETE"]


def test_a_storage_that_fails_meanwhile_does_not_end_a_trial(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = begun(study)
    storage = heartbeat.storage_of(study)
    with beating(study, id_of(trial), interval=0.02):

        def broken(*_: object) -> None:
            raise RuntimeError("away")

        monkeypatch.setattr(storage, "set_trial_user_attr", broken)
        time.sleep(0.1)
        monkeypatch.undo()
        before = study.trials[0].user_attrs.get(BEAT, [0])[0]
        until(lambda: study.trials[0].user_attrs.get(BEAT, [0])[0] > before + 1)


def test_told_twice_is_told_and_what_was_lost_is_another_workers(study: optuna.Study) -> None:
    twice, lost = begun(study), begun(study, **{BEAT: dead()})
    heartbeat.tell(study, twice, TrialState.COMPLETE, (1.0,))
    heartbeat.tell(study, twice, TrialState.COMPLETE, (1.0,))
    assert WorkerMonitor(study, silence=60).lost() == [lost.number]
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        heartbeat.tell(study, lost, TrialState.COMPLETE, (2.0,))
    assert states(study) == ["COMPLETE", "FAIL", "WAITING"] and study.trials[0].value == 1.0


def test_who_leaves_while_the_storage_is_away_does_not_wait_for_it(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, limits = begun(study), list[float]()

    def broken(*_: object) -> None:
        limits.append(heartbeat.OUTAGE.limit)
        raise optuna.exceptions.StorageInternalError("connection refused")

    monkeypatch.setattr(heartbeat.storage_of(study), "set_trial_user_attr", broken)
    give_back(study, id_of(trial))
    assert limits == [outage.EXIT_LIMIT] and heartbeat.OUTAGE.limit == outage.LIMIT


# -- over gRPC


@pytest.mark.slow
def test_each_waiting_trial_is_claimed_once(server: str) -> None:
    study = open_study(open_storage(server), "a", ("maximize",), "x")
    for _ in range(30):
        study.add_trial(optuna.create_trial(state=TrialState.WAITING))
    taken: list[int] = []

    def take() -> None:
        mine = load_study(open_storage(server), "a")
        taken.extend(mine.ask().number for _ in range(10))

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(30))


def kept_and_fetched(files: Files) -> None:
    """A file goes in and comes out; what is altered or unknown is refused."""
    data = os.urandom(2 * CHUNK + 17)
    digest = hashlib.sha256(data).hexdigest()
    pieces = [data[i : i + CHUNK] for i in range(0, len(data), CHUNK)]
    assert not files.has(digest)
    files.put(digest, pieces)
    files.put(digest, pieces)
    assert files.has(digest) and b"".join(files.get(digest)) == data
    with pytest.raises(StorageError, match="does not have the file"):
        list(files.get("0" * 64))
    assert not files.has("../../etc/passwd")


def test_files_in_a_folder(tmp_path: Path) -> None:
    kept_and_fetched(files_of(f"journal:{tmp_path}/a.journal"))
    files = FolderFiles(tmp_path / "a.journal.files")
    with pytest.raises(StorageError, match="corrupted"):
        files.put("0" * 64, [b"abc"])
    with pytest.raises(StorageError, match="no digest"):
        files.put("../x", [b"abc"])
    assert [p.name for p in tmp_path.iterdir()] == ["a.journal.files"]
    assert len(list((tmp_path / "a.journal.files").iterdir())) == 1


def test_files_over_grpc(server: str) -> None:
    files = files_of(server)
    kept_and_fetched(files)
    with pytest.raises(StorageError):
        files.put("0" * 64, [b"abc"])
    assert not files.has("0" * 64)


@pytest.mark.slow
def test_files_in_postgresql(postgres: str) -> None:
    open_storage(postgres)
    kept_and_fetched(files_of(postgres))
    server, port = serve(postgres, "127.0.0.1", 0)
    kept_and_fetched(files_of(f"grpc://127.0.0.1:{port}"))
    server.stop(None).wait()
    open_storage(postgres)  # a table more is not taken for somebody else's


def test_a_port_that_is_taken(server: str, tmp_path: Path) -> None:
    port = int(server.rpartition(":")[2])
    with pytest.raises(StorageError, match=f"Port {port}"):
        serve(f"journal:{tmp_path}/other.journal", "127.0.0.1", port)
    with pytest.raises(StorageError, match="cannot be found"):
        serve(f"journal:{tmp_path}/other.journal", "no.such.host.invalid", 0)
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("10.0.0.1") and not is_loopback("db.example")


# -- memory


def test_room_for_workers(tmp_path: Path) -> None:
    gib = 1 << 30
    assert Capacity(3, gib, 100 * gib).count == 3 and "Starting 3 more" in Capacity(3, gib, 100 * gib).message
    assert Capacity(7, 2 * gib, 10 * gib).count == 4 and "only 4 of 7" in Capacity(7, 2 * gib, 10 * gib).message
    assert Capacity(2, 2 * gib, gib).count == 0 and "no more" in Capacity(2, 2 * gib, gib).message
    assert 10 << 20 < resident() < 100 * gib and free() > 0


def test_a_container_has_less_than_its_machine(tmp_path: Path) -> None:
    for name, text in {"memory.max": "3000000", "memory.current": "2500000",
                       "memory.stat": "anon 1\ninactive_file 400000\n"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    assert free(tmp_path) == 900_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free(tmp_path) > 900_000


@pytest.mark.slow
def test_workers_that_lay_a_grid_try_each_configuration_and_few_twice(study: optuna.Study) -> None:
    def tried() -> set[tuple[int, ...]]:
        return {tuple(t.params.values()) for t in study.get_trials(states=(TrialState.COMPLETE,))}

    def take(sampler: optuna.samplers.BaseSampler) -> None:
        mine = load_study(heartbeat.storage_of(study), "a", sampler)
        while len(tried()) < 16:
            trial = mine.ask()
            for name in "ab":
                trial.suggest_categorical(name, range(4))
            mine.tell(trial, 1.0)

    grids = [sampler_of(SearchSpec(sampler="grid"), Space(), seed) for seed in range(3)]
    threads = [threading.Thread(target=take, args=(grid,)) for grid in grids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Three that draw at the same time from what is not done take 18 to 30 trials in a million simulations.
    assert len(tried()) == 16 and len(study.trials) <= 30
