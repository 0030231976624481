"""Heartbeats of workers, stored in trials so that every kind of storage supports them: a trial whose worker is silent
fails and is queued again. A beat is a count, and the observer times its standstill, so clocks are not compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.passes.search.outage import OUTAGE, STORAGE
from espalier.passes.search.storage import outages, reason

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

WORKER, BEAT, ERROR, LOST, RETRY = "worker", "beat", "error", "lost", "retry_of"
INTERVAL = float(os.environ.get("ESPALIER_BEAT", "10"))  # seconds between two beats
SILENT = 6  # missing beats after which a worker counts as dead
RETRIES = 2  # times that a lost trial is queued again, as it may be what kills its workers


def storage_of(study: Study) -> BaseStorage:
    """The storage of a study."""
    untyped: Any = study
    return untyped._storage


def id_of(trial: FrozenTrial | Trial) -> int:
    """The storage's id of a trial."""
    untyped: Any = trial
    return untyped._trial_id


@cache
def home() -> str:
    """An identifier of this machine, or of this container."""
    facts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with contextlib.suppress(OSError):
            facts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text())
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:12]


def _began(pid: int) -> str:
    """The start time of a process as a text; empty if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def worker_name() -> str:
    """The name of this process in trials: host:pid."""
    return f"{socket.gethostname()}:{os.getpid()}"


def signature(count: int) -> list[Any]:
    """A beat: its count, then machine, pid and start time of this process."""
    return [count, home(), os.getpid(), _began(os.getpid())]


def is_dead(trial: FrozenTrial) -> bool:
    """Whether the worker of a running trial was a process of this machine and has ended."""
    return process_ended(trial.user_attrs.get(BEAT))


def process_ended(beat: Any) -> bool:
    """Whether a beat is from a process of this machine that has ended."""
    if not (isinstance(beat, list) and len(beat) == 4 and beat[1] == home()):
        return False
    return type(beat[2]) is int and 0 < beat[2] < 1 << 31 and _began(beat[2]) != beat[3]


@contextlib.contextmanager
def beating(study: Study, trial_id: int, interval: float = INTERVAL) -> Generator[None]:
    """Write a beat to a trial every `interval` seconds inside the block, also after an outage of the storage."""
    storage, end = storage_of(study), threading.Event()
    if storage.get_trial(trial_id).user_attrs.get(WORKER) != worker_name():
        storage.set_trial_user_attr(trial_id, WORKER, worker_name())
    storage.set_trial_user_attr(trial_id, BEAT, signature(0))

    def beat() -> None:
        count = 0
        while not end.wait(interval):
            count += 1
            try:
                storage.set_trial_user_attr(trial_id, BEAT, signature(count))
            # Thread boundary: the trial continues whatever a storage raises; other workers observe the silence.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, outages()):
                    OUTAGE.begin(STORAGE, reason(error))
            else:
                OUTAGE.end(STORAGE)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(10)


@dataclass(slots=True)
class WorkerMonitor:
    """Observes the running trials of a study: `lost()` fails those whose worker is dead and queues them again.

    `silence`: seconds without a beat after which a worker counts as dead.
    """

    study: Study
    silence: float = INTERVAL * SILENT
    _beats: dict[int, tuple[Any, float]] = field(default_factory=dict[int, tuple[Any, float]])

    def lost(self) -> list[int]:
        """The numbers of trials lost since the last call; each is reported to one worker only.

        During an outage of the storage no worker can beat: silence counts from its end.
        """
        from optuna.trial import TrialState

        now = time.monotonic()
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        reachable = OUTAGE.ended_at if OUTAGE.since is None else time.monotonic()
        before, self._beats = self._beats, {}
        numbers: list[int] = []
        for trial in running:
            beat = trial.user_attrs.get(BEAT)
            last, since = before.get(trial.number, (None, now))
            since = max(since, reachable) if last == beat and trial.number in before else now
            self._beats[trial.number] = (beat, since)
            silent = now - since
            if (is_dead(trial) or silent > self.silence) and self._requeue(trial, silent):
                numbers.append(trial.number)
        return numbers

    def _requeue(self, trial: FrozenTrial, silent: float) -> bool:
        worker = trial.user_attrs.get(WORKER, "Its worker")
        why = f"{worker} is gone" if is_dead(trial) else f"{worker} was silent for {silent:.0f} s"
        history = [*trial.user_attrs.get(RETRY, []), trial.number]
        last = len(history) > RETRIES
        end = f"abandoned after {len(history)} attempts." if last else "the trial is queued again."
        if not fail(self.study, id_of(trial), f"{why}: {end}", lost=True):
            return False
        if not last:  # read again: its worker may have suggested more parameters
            enqueue_again(self.study, storage_of(self.study).get_trial(id_of(trial)), history)
        return True


def fail(study: Study, trial_id: int, why: str, *, lost: bool = False) -> bool:
    """Fail a trial with a reason; False if it has ended."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    storage = storage_of(study)
    try:
        storage.set_trial_user_attr(trial_id, ERROR, why)
        if lost:
            storage.set_trial_user_attr(trial_id, LOST, True)
        return storage.set_trial_state_values(trial_id, TrialState.FAIL)
    except (UpdateFinishedTrialError, RuntimeError):
        return False


def tell(study: Study, trial: Trial, state: TrialState, values: Sequence[float] | None) -> None:
    """Store how a trial ended; raises UpdateFinishedTrialError if it counts as lost and another worker has it.

    Idempotent, as a storage whose connection broke may have stored the first attempt.
    """
    from optuna.exceptions import UpdateFinishedTrialError

    try:
        study.tell(trial, None if values is None else [*values], state=state)
    except (UpdateFinishedTrialError, ValueError):
        stored = storage_of(study).get_trial(id_of(trial))
        if not stored.state.is_finished():
            raise
        if stored.user_attrs.get(LOST) or stored.state != state:
            raise UpdateFinishedTrialError(f"Trial {trial.number} counts as lost.") from None


def enqueue_again(study: Study, trial: FrozenTrial, history: list[int]) -> None:
    """Queue a lost trial's parameters."""
    import optuna

    attrs = {k: v for k, v in trial.user_attrs.items() if k == "origin"}  # without the attributes of its run
    again = optuna.create_trial(
        state=optuna.trial.TrialState.WAITING, params=trial.params, distributions=trial.distributions,
        user_attrs={**attrs, RETRY: history}, system_attrs={**trial.system_attrs, **_fixed(trial)},
    )  # fmt: skip
    study.add_trial(again)


def _fixed(trial: FrozenTrial) -> dict[str, Any]:
    """The system attribute that makes samplers keep the parameters."""
    return {"fixed_params": dict(trial.params)} if trial.params else {}


def give_back(study: Study, trial_id: int) -> None:
    """Queue a trial again, with its parameters, because this worker stops."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    storage = storage_of(study)
    with contextlib.suppress(UpdateFinishedTrialError, *outages()), OUTAGE.exiting():
        for name, value in _fixed(storage.get_trial(trial_id)).items():
            storage.set_trial_system_attr(trial_id, name, value)
        storage.set_trial_user_attr(trial_id, WORKER, "")  # its next worker has to claim it first
        storage.set_trial_state_values(trial_id, TrialState.WAITING)
