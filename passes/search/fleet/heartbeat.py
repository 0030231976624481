"""Heartbeats of workers, in the trials themselves, so that every kind of storage has them: a trial whose worker fell
silent is failed and offered once more. Clocks are not compared: a beat is a count, and who looks times its standstill.
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
SILENT = 6  # beats that fail to come before a worker counts as dead
RETRIES = 2  # times that a trial whose worker died is offered again: what kills each worker is given up


def storage_of(study: Study) -> BaseStorage:
    """Where a study lies."""
    held: Any = study
    return held._storage


def id_of(trial: FrozenTrial | Trial) -> int:
    """What storages call a trial."""
    held: Any = trial
    return held._trial_id


@cache
def home() -> str:
    """What tells this machine's processes from those of others, containers included."""
    facts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with contextlib.suppress(OSError):
            facts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text())
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:12]


def _began(pid: int) -> str:
    """When a process began, as the system counts; empty where there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def worker_name() -> str:
    """This process as trials name it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def signature(count: int) -> list[Any]:
    """A beat: its number, and whose it is."""
    return [count, home(), os.getpid(), _began(os.getpid())]


def is_dead(trial: FrozenTrial) -> bool:
    """Whether a running trial's worker was a process of this machine that is no more."""
    return is_gone(trial.user_attrs.get(BEAT))


def is_gone(beat: Any) -> bool:
    """Whether a signature is that of a process of this machine that is no more."""
    if not (isinstance(beat, list) and len(beat) == 4 and beat[1] == home()):
        return False
    return type(beat[2]) is int and 0 < beat[2] < 1 << 31 and _began(beat[2]) != beat[3]


@contextlib.contextmanager
def beating(study: Study, trial_id: int, interval: float = INTERVAL) -> Generator[None]:
    """Show signs of life in a trial while it runs. A storage that is away for a while is no reason to stop."""
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
            # Thread boundary: whatever a storage raises, the trial goes on; silence is what others see.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, outages()):
                    OUTAGE.away(STORAGE, reason(error))
            else:
                OUTAGE.back(STORAGE)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(10)


@dataclass(slots=True)
class WorkerMonitor:
    """Looks after the running trials of a study: `lost()` fails those whose worker is dead, and offers them again."""

    study: Study
    silence: float = INTERVAL * SILENT
    _seen: dict[int, tuple[Any, float]] = field(default_factory=dict[int, tuple[Any, float]])

    def lost(self) -> list[int]:
        """The numbers of trials that were lost since the last look, each told to one worker only.

        While the storage was away nobody could beat: silence begins when it is back.
        """
        from optuna.trial import TrialState

        now = time.monotonic()
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        heard = OUTAGE.returned if OUTAGE.since is None else time.monotonic()
        seen, self._seen = self._seen, {}
        found: list[int] = []
        for trial in running:
            beat = trial.user_attrs.get(BEAT)
            last, since = seen.get(trial.number, (None, now))
            since = max(since, heard) if last == beat and trial.number in seen else now
            self._seen[trial.number] = (beat, since)
            silent = now - since
            if (is_dead(trial) or silent > self.silence) and self._offer_again(trial, silent):
                found.append(trial.number)
        return found

    def _offer_again(self, trial: FrozenTrial, silent: float) -> bool:
        worker = trial.user_attrs.get(WORKER, "Its worker")
        why = f"{worker} is gone" if is_dead(trial) else f"{worker} was silent for {silent:.0f} s"
        history = [*trial.user_attrs.get(RETRY, []), trial.number]
        given_up = len(history) > RETRIES
        end = f"given up after {len(history)} times." if given_up else "the trial is offered again."
        if not fail(self.study, id_of(trial), f"{why}: {end}", lost=True):
            return False
        if not given_up:  # as it ended: its worker may have chosen more since it was looked at
            offer(self.study, storage_of(self.study).get_trial(id_of(trial)), history)
        return True


def fail(study: Study, trial_id: int, why: str, *, lost: bool = False) -> bool:
    """Fail a trial with its reason; False where another did, or it ended by itself."""
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
    """How a trial ended; raises UpdateFinishedTrialError where it was taken for lost and is another worker's.

    Told twice it is told: a storage that broke off may have heard it the first time.
    """
    from optuna.exceptions import UpdateFinishedTrialError

    try:
        study.tell(trial, None if values is None else [*values], state=state)
    except (UpdateFinishedTrialError, ValueError):
        held = storage_of(study).get_trial(id_of(trial))
        if not held.state.is_finished():
            raise
        if held.user_attrs.get(LOST) or held.state != state:
            raise UpdateFinishedTrialError(f"Trial {trial.number} was taken for lost.") from None


def offer(study: Study, trial: FrozenTrial, history: list[int]) -> None:
    """Put a lost trial's choices back into the queue."""
    import optuna

    attrs = {k: v for k, v in trial.user_attrs.items() if k == "origin"}  # what it was before it ran
    again = optuna.create_trial(
        state=optuna.trial.TrialState.WAITING, params=trial.params, distributions=trial.distributions,
        user_attrs={**attrs, RETRY: history}, system_attrs={**trial.system_attrs, **_fixed(trial)},
    )  # fmt: skip
    study.add_trial(again)


def _fixed(trial: FrozenTrial) -> dict[str, Any]:
    """What tells samplers that the choices are made."""
    return {"fixed_params": dict(trial.params)} if trial.params else {}


def give_back(study: Study, trial_id: int) -> None:
    """Let another worker take a trial that this one will not end: it waits again, with the choices that it made."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    storage = storage_of(study)
    with contextlib.suppress(UpdateFinishedTrialError, *outages()), OUTAGE.hurried():
        for name, value in _fixed(storage.get_trial(trial_id)).items():
            storage.set_trial_system_attr(trial_id, name, value)
        storage.set_trial_user_attr(trial_id, WORKER, "")  # who takes it next has to find a place first
        storage.set_trial_state_values(trial_id, TrialState.WAITING)
