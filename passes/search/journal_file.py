"""Optuna's journal storage, unharmed by a kill or a damaged record: what its own file backend does not do.

A torn line is cut off before the next is written, a wrong record loses nothing else, and what a dead process locked is
free again within seconds. `optuna-dashboard` opens the file as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.storages.journal._file import LOCK_FILE_SUFFIX
from optuna.storages.journal._storage import JournalOperation as Op
from optuna.storages.journal._storage import JournalStorageReplayResult
from optuna.trial import TrialState, create_trial

from espalier.model.errors import StorageError
from espalier.model.files import explained
from espalier.passes.search.journal_records import DAMAGED, Log, fits_goals, is_sound, read_record

WAIT = (
    2.0,
    30.0,
)  # seconds for Optuna's lock: it is held for milliseconds; where the system has no locks, as Optuna does
_SMALL = {Op.SET_TRIAL_PARAM, Op.SET_TRIAL_INTERMEDIATE_VALUE, Op.SET_TRIAL_USER_ATTR, Op.SET_TRIAL_SYSTEM_ATTR}
_NOBODY = {"worker_id": ""}
_EPOCH = "1970-01-02T00:00:00"


@contextlib.contextmanager
def system_lock(path: Path) -> Generator[bool]:
    """Lock a file or folder until the end, or until the process dies; tells whether the system can."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    held = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        locked = False
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
            locked = True
        yield locked
    finally:
        os.close(held)


class JournalFile(BaseJournalBackend):
    """Reads on from where it was; writes whole lines under two locks: the system's, and Optuna's for other programs.
    The disk is waited for where a trial begins or ends, not for each parameter.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._count = self._offset = 0

    def read_logs(self, log_number_from: int) -> Iterable[Log]:
        """The operations from the given number on; of a line that is still being written, nothing."""
        if log_number_from != self._count:
            self._count = self._offset = 0
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                if log := read_record(line):
                    self._count += 1
                    if self._count > log_number_from:
                        yield log

    def append_logs(self, logs: list[Log]) -> None:
        """Write operations, whole; raises StorageError."""
        data = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        with explained(self.path, StorageError), self._locked(), self.path.open("r+b") as file:
            file.truncate(_whole(file))
            file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
            if any(log["op_code"] not in _SMALL for log in logs):
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        lock = Path(f"{self.path.resolve()}{LOCK_FILE_SUFFIX}")
        with system_lock(Path(f"{self.path}.held")) as alone:
            until = time.monotonic() + WAIT[not alone]
            while True:
                try:
                    lock.open("x").close()
                    break
                except FileExistsError:
                    if time.monotonic() > until:  # a dead process's
                        lock.unlink(missing_ok=True)
                    time.sleep(0.002)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


def _whole(file: Any) -> int:
    """How many bytes of a file are whole lines."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


class _Replay(JournalStorageReplayResult):
    """Optuna's, but skips what is damaged. `skipped`: the numbers of the records that were."""

    def __init__(self, worker_id_prefix: str) -> None:
        super().__init__(worker_id_prefix)
        self._prefix = worker_id_prefix
        self.skipped: list[int] = []

    def apply_logs(self, logs: Iterable[Log]) -> None:
        """Replay records; what another process wrote wrongly does not keep the others from being read."""
        for log in logs:
            if not is_sound(log) or not self._ends_well(log):
                self.log_number_read += 1
                self._skip(log)
                continue
            try:
                super().apply_logs([log])
            except (AssertionError, AttributeError, *DAMAGED) as error:
                if str(log["worker_id"]).startswith(self._prefix):
                    raise  # an answer to this process: the study is there already, the trial has ended
                del error
                self._skip(log)

    def _ends_well(self, log: Log) -> bool:
        if log["op_code"] not in (Op.SET_TRIAL_STATE_VALUES, Op.CREATE_TRIAL):
            return True
        if log.get("state") != TrialState.COMPLETE.value:
            return True
        study_id = log["study_id"] if "study_id" in log else self._trial_id_to_study_id.get(log["trial_id"], -1)
        study, values = self._studies.get(study_id), log.get("values")
        values = [log["value"]] if values is None and log.get("value") is not None else values
        return study is None or fits_goals(values, len(study.directions))

    def _skip(self, log: Log) -> None:
        """What a damaged record made keeps its number, which later records go by."""
        self.skipped.append(self.log_number_read)
        op, study = log.get("op_code"), log.get("study_id")
        if op == Op.CREATE_STUDY:
            name = f"damaged study {self._next_study_id} of {self.log_number_read}"
            self._make(op, study_name=name, directions=[1])
        elif op == Op.CREATE_TRIAL:
            known = [study] if type(study) is int and study in self._studies else list(self._studies)
            if len(known) == 1:
                why = {"error": "Its record in the journal is damaged."}
                self._make(op, study_id=known[0], state=TrialState.FAIL.value, user_attrs=why, datetime_start=_EPOCH,
                           datetime_complete=_EPOCH)  # fmt: skip
            else:  # of no study: it only keeps its number
                self._trials[len(self._trials)] = create_trial(state=TrialState.FAIL)

    def _make(self, op: int, **facts: Any) -> None:
        super().apply_logs([{**_NOBODY, "op_code": op, **facts}])
        self.log_number_read -= 1


class Journal(JournalStorage):
    """Optuna's journal storage on such a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._worker_id_prefix = f"{uuid.uuid4().hex[:12]}-"  # it stands in every line
        self._backend = JournalFile(path)
        self._thread_lock = threading.Lock()
        self._replay = self._replay_result = _Replay(self._worker_id_prefix)  # instead of Optuna's
        self._sync_with_backend()

    @property
    def damage(self) -> str:
        """How many records could not be read, in a sentence; empty where all could."""
        skipped = self._replay.skipped
        if not skipped:
            return ""
        if len(skipped) == 1:
            return f"Record {skipped[0]} of {self.path.name} is damaged and was skipped; all others were read."
        told = f"{len(skipped)} records of {self.path.name} are damaged and were skipped, the first is {skipped[0]}"
        return f"{told}; all others were read."
