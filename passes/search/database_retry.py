"""Optuna's storage in a database, but a server that goes away for a while is waited for, in the midst of any call:
so trials that run meanwhile are told when it is back. A file has no such moments: what it refuses is an error at once.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from espalier.passes.search.outage import OUTAGE

INNER = ("_create_new_trial", "_set_trial_param", "_get_trials", "_get_best_trial_id")  # what Optuna's cache calls
AWAY = ("08", "57P")  # SQLSTATEs of a lost connection, and of a server that stops or starts


class PatientDatabase(RDBStorage):
    """The same, whose calls are made again while the server cannot be reached."""

    def __init__(self, full: str, name: str, engine: dict[str, Any]) -> None:
        super().__init__(full, engine_kwargs=engine)
        self.name = name


def _gone(error: Exception) -> str:
    """Why a server is away; empty for an error that another try would meet again."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if not isinstance(cause, DBAPIError):
        return ""
    state = str(getattr(cause.orig, "sqlstate", None) or getattr(cause.orig, "pgcode", None) or "")
    if state and not state.startswith(AWAY):  # such as a full disk, or a statement that took too long
        return ""
    broke = cause.connection_invalidated or isinstance(cause, OperationalError | InterfaceError)
    return str(cause.orig).strip().partition("\n")[0][:160] or "the connection broke" if broke else ""


def _patient(name: str) -> Any:
    method: Any = getattr(RDBStorage, name)

    @wraps(method)
    def call(self: PatientDatabase, *args: Any, **more: Any) -> Any:
        def once() -> Any:
            return method(self, *args, **more)

        return once() if self.engine.dialect.name == "sqlite" else OUTAGE.patiently(self.name, once, _gone)

    return call


for _name in (*(n for n in dir(BaseStorage) if not n.startswith("_") and callable(getattr(RDBStorage, n))), *INNER):
    if _name != "remove_session":
        setattr(PatientDatabase, _name, _patient(_name))
