"""Optuna's Journal file, unharmed by a kill: a torn line is cut off before the next is written, and one in the middle
loses nothing else. What a dead process locked is free again within seconds. `optuna-dashboard` opens it as it is.
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
from functools import lru_cache
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution, check_distribution_compatibility, json_to_distribution
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileOpenLock, JournalFileSymlinkLock
from optuna.storages.journal._file import LOCK_FILE_SUFFIX
from optuna.storages.journal._storage import JournalOperation, JournalStorageReplayResult
from optuna.trial import FrozenTrial, TrialState, create_trial

from espalier.model.errors import StorageError
from espalier.model.files import explained
from espalier.passes.search.journal_records import damaged_creation, fits_goals, is_sound

Log = dict[str, Any]
BEGIN = b'{"op_code":'
PATIENCE = 2.0  # seconds that somebody else's lock is waited for; it is held for milliseconds
_SMALL = {JournalOperation.SET_TRIAL_PARAM, JournalOperation.SET_TRIAL_INTERMEDIATE_VALUE,
          JournalOperation.SET_TRIAL_USER_ATTR, JournalOperation.SET_TRIAL_SYSTEM_ATTR}  # fmt: skip
_LAST = b',"distribution":'
# A study says the same few distributions in each of its trials: they are parsed once.
_distribution = lru_cache(4096)(json_to_distribution)
_text = lru_cache(4096)(json.loads)
_COMPACT = (",", ":")
DAMAGED = -1
_DAMAGE = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
_NOBODY = {"worker_id": ""}
_EPOCH = "1970-01-02T00:00:00"


@lru_cache(4096)
def _short(distribution: str) -> str:
    """The same without spaces."""
    return json.dumps(json.loads(distribution), separators=_COMPACT)


def parse_line(line: bytes) -> Log | None:
    """The operation on a line; of two that ran together, the second; None where there is none."""
    head, found, tail = line.rpartition(_LAST)
    if found:
        with contextlib.suppress(*_DAMAGE):
            return {**json.loads(head + b"}"), "distribution": _text(tail.rstrip()[:-1])}
    for text in (line, line[line.rfind(BEGIN) :] if BEGIN in line else b""):
        with contextlib.suppress(*_DAMAGE):
            log = json.loads(text)
            if isinstance(log, dict) and "op_code" in log:
                return log
    return None


def _record(line: bytes) -> Log | None:
    """The operation on a line; of a line that cannot be read, what it tells all the same; None of an empty one."""
    if not line.strip(b"\0 \r\n\t"):
        return None
    return parse_line(line) or damaged_creation(line) or {"op_code": DAMAGED}


class JournalFile(BaseJournalBackend):
    """Reads from where it was; writes whole lines under two locks: the system's, which dies with its process, and
    Optuna's own, for other programs. The disk is waited for where a trial begins or ends, not for each parameter.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._count = self._offset = 0
        plain = JournalFileOpenLock if sys.platform == "win32" else JournalFileSymlinkLock
        self._others = plain(str(path.resolve()), grace_period=30)
        self._lock = Path(f"{path.resolve()}{LOCK_FILE_SUFFIX}")

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
                if log := _record(line):
                    self._count += 1
                    if self._count > log_number_from:
                        yield log

    def append_logs(self, logs: list[Log]) -> None:
        """Write operations, whole; raises StorageError."""
        said = ({**log, "distribution": _short(log["distribution"])} if "distribution" in log else log for log in logs)
        data = "".join(json.dumps(log, separators=_COMPACT) + "\n" for log in said).encode()
        with explained(self.path, StorageError), self._locked(), self.path.open("r+b") as file:
            file.truncate(_whole(file))
            file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
            if any(log["op_code"] not in _SMALL for log in logs):
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        with _system_lock(Path(f"{self.path}.held")) as alone:
            if alone:
                self._clear()
            with _unmasked():
                self._others.acquire()
            try:
                yield
            finally:
                with contextlib.suppress(RuntimeError), _unmasked():  # taken from us, which Optuna does after 30 s
                    self._let_go()

    def _let_go(self) -> None:
        try:
            self._others.release()
        except FileNotFoundError:  # interrupted: Optuna then removes what may be gone already, or not be there yet
            with contextlib.suppress(RuntimeError):
                self._others.release()
            raise

    def _clear(self) -> None:
        """Wait for Optuna's lock. Who has the system's besides knows that one which stays is a dead process's."""
        until = time.monotonic() + PATIENCE
        while os.path.lexists(self._lock):
            if time.monotonic() > until:
                with contextlib.suppress(RuntimeError):
                    self._others.release()
            time.sleep(0.002)


@contextlib.contextmanager
def _unmasked() -> Generator[None]:
    """Ctrl-C within Optuna's locks comes out as itself, not as the error of their own clearing up."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause = error.__context__
        while isinstance(cause, Exception):
            cause = cause.__context__
        if cause is not None:
            raise cause from None
        raise


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


@contextlib.contextmanager
def _system_lock(path: Path) -> Generator[bool]:
    """A lock that the system takes back when its process dies; tells whether there is such a thing here."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    with path.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: Optuna's own must do
            yield False
        else:
            yield True


class _Replay(JournalStorageReplayResult):
    """Optuna's, but parses a distribution once and remembers the first of each parameter, and skips what is damaged.

    `skipped`: the numbers of the records that were.
    """

    def __init__(self, worker_id_prefix: str) -> None:
        super().__init__(worker_id_prefix)
        self._first: dict[tuple[int, str], BaseDistribution] = {}
        self._prefix = worker_id_prefix
        self.skipped: list[int] = []

    def apply_logs(self, logs: Iterable[Log]) -> None:
        """Replay records; what another process wrote wrongly does not keep the others from being read."""
        for log in logs:
            if log.get("damaged") or not is_sound(log) or not self._ends_well(log):
                self.log_number_read += 1
                self._skip(log)
                continue
            try:
                super().apply_logs([log])
            except (AssertionError, AttributeError, *_DAMAGE) as error:
                if str(log["worker_id"]).startswith(self._prefix):
                    raise  # an answer to this process: the study is there already, the trial has ended
                del error
                self._skip(log)

    def _ends_well(self, log: Log) -> bool:
        if log["op_code"] not in (JournalOperation.SET_TRIAL_STATE_VALUES, JournalOperation.CREATE_TRIAL):
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
        if op == JournalOperation.CREATE_STUDY:
            number = self._next_study_id
            name = f"damaged study {number} of {self.log_number_read}"
            super().apply_logs([{**_NOBODY, "op_code": op, "study_name": name, "directions": [1]}])
            self.log_number_read -= 1
        elif op == JournalOperation.CREATE_TRIAL:
            known = study if isinstance(study, int) and not isinstance(study, bool) and study in self._studies else None
            if known is not None or len(self._studies) == 1:
                self._place_failed(next(iter(self._studies)) if known is None else known)
            else:  # of no study: it only keeps its number
                number = len(self._trials)
                self._trials[number] = create_trial(state=TrialState.FAIL)

    def _place_failed(self, study: int) -> None:
        said = {"state": TrialState.FAIL.value, "user_attrs": {"error": "Its record in the journal is damaged."}}
        when = {"datetime_start": _EPOCH, "datetime_complete": _EPOCH}
        super().apply_logs([{**_NOBODY, **said, **when, "op_code": JournalOperation.CREATE_TRIAL, "study_id": study}])
        self.log_number_read -= 1

    def _apply_set_trial_param(self, log: Log) -> None:
        number, name = log["trial_id"], log["param_name"]
        if not self._trial_exists_and_updatable(number, log):
            return
        distribution = _distribution(log["distribution"])
        first = self._first.setdefault((self._trial_id_to_study_id[number], name), distribution)
        if first is not distribution:
            try:
                check_distribution_compatibility(first, distribution)
            except ValueError:
                if self._is_issued_by_this_worker(log):
                    raise
                return
        trial = self._trials[number]
        after = object.__new__(FrozenTrial)  # what others hold of this trial does not change
        vars(after).update(vars(trial))
        after.params = {**trial.params, name: distribution.to_external_repr(log["param_value_internal"])}
        after.distributions = {**trial.distributions, name: distribution}
        self._trials[number] = after


class Journal(JournalStorage):
    """Optuna's Journal storage on such a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._worker_id_prefix = f"{uuid.uuid4().hex[:12]}-"  # it stands in every line
        self._backend = JournalFile(path)
        self._thread_lock = threading.Lock()
        self._replay: _Replay = _Replay(self._worker_id_prefix)
        self._replay_result = self._replay  # instead of Optuna's, which its __init__ would make
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
