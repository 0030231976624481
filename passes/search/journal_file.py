"""Optuna's journal storage with a file backend that survives kills and damaged records.

A partial line is truncated before the next is written, a damaged record loses nothing else, and the lock of a dead
process is released within seconds. `optuna-dashboard` opens the file unchanged.
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
from espalier.passes.search.journal_records import DAMAGED, Log, fits_goals, is_valid, read_record

# Seconds to wait for Optuna's lock, which is held for milliseconds; the second where the system has no locks.
WAIT = (2.0, 30.0)
_SMALL = {Op.SET_TRIAL_PARAM, Op.SET_TRIAL_INTERMEDIATE_VALUE, Op.SET_TRIAL_USER_ATTR, Op.SET_TRIAL_SYSTEM_ATTR}
_NOBODY = {"worker_id": ""}
_EPOCH = "1970-01-02T00:00:00"


@contextlib.contextmanager
def system_lock(path: Path) -> Generator[bool]:
    """Lock a file or folder inside the block, at most until the process dies; yields whether the system can."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        locked = False
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            locked = True
        yield locked
    finally:
        os.close(descriptor)


class JournalFile(BaseJournalBackend):
    """Reads from its last offset; writes complete lines under two locks: the system's, and Optuna's for other programs.
    Writes are synchronised to disk when a trial begins or ends, not for each parameter.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._count = self._offset = 0

    def read_logs(self, log_number_from: int) -> Iterable[Log]:
        """The operations from the given number on, without a line that is still being written."""
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
        """Append operations as complete lines; raises StorageError."""
        data = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        with explained(self.path, StorageError), self._locked(), self.path.open("r+b") as file:
            file.truncate(_complete_bytes(file))
            file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
            if any(log["op_code"] not in _SMALL for log in logs):
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        lock = Path(f"{self.path.resolve()}{LOCK_FILE_SUFFIX}")
        with system_lock(Path(f"{self.path}.held")) as exclusive:
            until = time.monotonic() + WAIT[not exclusive]
            while True:
                try:
                    lock.open("x").close()
                    break
                except FileExistsError:
                    if time.monotonic() > until:  # its process is dead
                        lock.unlink(missing_ok=True)
                    time.sleep(0.002)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


def _complete_bytes(file: Any) -> int:
    """The number of bytes up to the last line break."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        position = file.read(end - start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0


class _Replay(JournalStorageReplayResult):
    """Optuna's replay, which skips damaged records. `skipped`: their numbers."""

    def __init__(self, worker_id_prefix: str) -> None:
        super().__init__(worker_id_prefix)
        self._prefix = worker_id_prefix
        self.skipped: list[int] = []

    def apply_logs(self, logs: Iterable[Log]) -> None:
        """Replay records, without the damaged ones of other processes."""
        for log in logs:
            if not is_valid(log) or not self._has_all_values(log):
                self.log_number_read += 1
                self._skip(log)
                continue
            try:
                super().apply_logs([log])
            except (AssertionError, AttributeError, *DAMAGED) as error:
                if str(log["worker_id"]).startswith(self._prefix):
                    raise  # a response to this process: the study exists, or the trial has ended
                del error
                self._skip(log)

    def _has_all_values(self, log: Log) -> bool:
        if log["op_code"] not in (Op.SET_TRIAL_STATE_VALUES, Op.CREATE_TRIAL):
            return True
        if log.get("state") != TrialState.COMPLETE.value:
            return True
        study_id = log["study_id"] if "study_id" in log else self._trial_id_to_study_id.get(log["trial_id"], -1)
        study, values = self._studies.get(study_id), log.get("values")
        values = [log["value"]] if values is None and log.get("value") is not None else values
        return study is None or fits_goals(values, len(study.directions))

    def _skip(self, log: Log) -> None:
        """Skip a record; a study or trial that it created keeps its number, to which later records refer."""
        self.skipped.append(self.log_number_read)
        op, study = log.get("op_code"), log.get("study_id")
        if op == Op.CREATE_STUDY:
            name = f"damaged study {self._next_study_id} of {self.log_number_read}"
            self._create(op, study_name=name, directions=[1])
        elif op == Op.CREATE_TRIAL:
            studies = [study] if type(study) is int and study in self._studies else list(self._studies)
            if len(studies) == 1:
                why = {"error": "Its record in the journal is damaged."}
                self._create(op, study_id=studies[0], state=TrialState.FAIL.value, user_attrs=why,
                             datetime_start=_EPOCH, datetime_complete=_EPOCH)  # fmt: skip
            else:  # of an unknown study: only its number is reserved
                self._trials[len(self._trials)] = create_trial(state=TrialState.FAIL)

    def _create(self, op: int, **facts: Any) -> None:
        super().apply_logs([{**_NOBODY, "op_code": op, **facts}])
        self.log_number_read -= 1


class Journal(JournalStorage):
    """Optuna's journal storage with this backend and replay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._worker_id_prefix = f"{uuid.uuid4().hex[:12]}-"  # short, as it is in every line
        self._backend = JournalFile(path)
        self._thread_lock = threading.Lock()
        self._replay = self._replay_result = _Replay(self._worker_id_prefix)  # instead of Optuna's
        self._sync_with_backend()

    @property
    def damage(self) -> str:
        """A sentence on the skipped records; empty if there are none."""
        skipped = self._replay.skipped
        if not skipped:
            return ""
        if len(skipped) == 1:
            return f"Record {skipped[0]} of {self.path.name} is damaged and was skipped; all others were read."
        text = f"{len(skipped)} records of {self.path.name} are damaged and were skipped, the first is {skipped[0]}"
        return f"{text}; all others were read."
