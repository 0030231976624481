"""Retries calls to a storage that cannot be reached, and reports the beginning and the end of each outage once.

Optuna, gRPC and SQLAlchemy do not retry for minutes: gRPC stops after five attempts, and SQLAlchemy's pre-ping
reconnects but does not wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

STORAGE = "The storage"
SLOW = 3.0  # seconds after which a call counts as unanswered
FIRST_PAUSE, LAST_PAUSE = 0.25, 4.0  # seconds between two attempts
LIMIT = 300.0  # seconds of an outage after which the error is raised
EXIT_LIMIT = 5.0  # the same for a process that is about to end
OutageReason = Callable[[Exception], str]  # why a storage cannot be reached; empty for other errors


class Outage:
    """The outage of this process' storage. `since`: its beginning; `ended_at`: the end of the last (monotonic s)."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.ended_at = 0.0
        self.limit = LIMIT
        self._tell: Callable[[str], None] = lambda text: None
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def reporting(self, tell: Callable[[str], None]) -> Generator[None]:
        """Report to `tell` inside the block, from any thread."""
        before, self._tell, self.since = self._tell, tell, None
        try:
            yield
        finally:
            self._tell, self.since = before, None

    @contextlib.contextmanager
    def exiting(self) -> Generator[None]:
        """Wait for at most EXIT_LIMIT seconds inside the block."""
        before, self.limit = self.limit, EXIT_LIMIT
        try:
            yield
        finally:
            self.limit = before

    def retry(self, name: str, why_away: OutageReason, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """The result of `call`, retried during an outage of its storage."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            slow = threading.Timer(SLOW, self.begin, (name, "it does not answer"))
            slow.daemon = True
            slow.start()
            try:
                result = call(*args, **more)
            # Storages raise their drivers' errors: `why_away` tells outages from other errors.
            except Exception as error:
                why = why_away(error)
                remaining = self.limit - (time.monotonic() - begun)
                if not why or remaining < 0:
                    raise
                self.begin(name, why)
                time.sleep(min(pause, remaining + FIRST_PAUSE))
                pause = min(2 * pause, LAST_PAUSE)
            else:
                if self.since is not None:
                    self.end(name)
                return result
            finally:
                slow.cancel()

    def begin(self, name: str, why: str) -> None:
        """Begin an outage and report it, unless one has begun."""
        with self._lock:
            if self.since is not None:
                return
            self.since = time.monotonic()
        self._tell(f"{name} does not respond since {time.strftime('%H:%M:%S')}: {why.rstrip('. ')}. Trying again.")

    def end(self, name: str) -> None:
        """End an outage and report it, if one has begun."""
        with self._lock:
            since, self.since = self.since, None
            self.ended_at = self.ended_at if since is None else time.monotonic()
        if since is not None:
            self._tell(f"{name} responds again after {time.monotonic() - since:.0f} s.")


OUTAGE = Outage()


def retrying(storage: BaseStorage, name: str, why_away: OutageReason) -> BaseStorage:
    """The storage with calls that are retried during outages."""
    from optuna.storages import BaseStorage

    for method in vars(BaseStorage):
        if not method.startswith("_") and method != "remove_session" and callable(call := getattr(storage, method)):
            setattr(storage, method, partial(OUTAGE.retry, name, why_away, call))
    return storage


def lost_connection(error: Exception) -> str:
    """Why a database is unreachable: its connection broke, or it stops or starts; not a full disk or a slow query."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if not isinstance(cause, DBAPIError):
        return ""
    state = str(getattr(cause.orig, "sqlstate", None) or getattr(cause.orig, "pgcode", None) or "")
    broke = cause.connection_invalidated or isinstance(cause, OperationalError | InterfaceError)
    if not broke or (state and not state.startswith(("08", "57P"))):
        return ""
    return str(cause.orig).strip().partition("\n")[0][:160] or "the connection broke"


def locked_file(error: Exception) -> str:
    """Why an SQLite file is unavailable: other processes keep it locked; no other error of a file ends by waiting."""
    return why if "database is locked" in (why := lost_connection(error)) else ""


def unavailable(error: Exception) -> str:
    """Why a gRPC server is unreachable: no connection, or it stopped during a call."""
    import grpc

    code = error.code() if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call) else None
    if code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return ""
    return str(error.details() or "").strip().partition("\n")[0][:160] or "the connection broke"  # type: ignore[attr-defined]
