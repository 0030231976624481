"""Retries of a storage that cannot be reached, within each call, and one report of each outage and of its end.

Neither Optuna nor gRPC nor SQLAlchemy retries for minutes: gRPC stops after five attempts, and a pool that pings finds
a server that is back, but does not wait for one.
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
SLOW = 3.0  # seconds after which a call counts as not answered
FIRST_PAUSE, LAST_PAUSE = 0.25, 4.0  # seconds between two tries
LIMIT = 300.0  # seconds that a storage may be away
PARTING = 5.0  # seconds of them that a process waits which is about to end
IsAway = Callable[[Exception], str]  # why a storage cannot be reached; empty for an error that is none of that


class Outage:
    """Of this process' storage: since when it is away, when it came back last, and where that is reported."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.returned = 0.0
        self.limit = LIMIT
        self._tell: Callable[[str], None] = lambda text: None
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def told(self, tell: Callable[[str], None]) -> Generator[None]:
        """Report to `tell` meanwhile, from any thread."""
        before, self._tell, self.since = self._tell, tell, None
        try:
            yield
        finally:
            self._tell, self.since = before, None

    @contextlib.contextmanager
    def hurried(self) -> Generator[None]:
        """Wait only for PARTING seconds meanwhile: this process is about to end."""
        before, self.limit = self.limit, PARTING
        try:
            yield
        finally:
            self.limit = before

    def retry(self, name: str, is_away: IsAway, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """What `call` returns, tried again while its storage is away."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            slow = threading.Timer(SLOW, self.away, (name, "it does not answer"))
            slow.daemon = True
            slow.start()
            try:
                found = call(*args, **more)
            # Storages raise what their drivers raise: `is_away` decides, all else is raised.
            except Exception as error:
                why = is_away(error)
                left = self.limit - (time.monotonic() - begun)
                if not why or left < 0:
                    raise
                self.away(name, why)
                time.sleep(min(pause, left + FIRST_PAUSE))
                pause = min(2 * pause, LAST_PAUSE)
            else:
                if self.since is not None:
                    self.back(name)
                return found
            finally:
                slow.cancel()

    def away(self, name: str, why: str) -> None:
        """A storage does not answer; reported once."""
        with self._lock:
            if self.since is not None:
                return
            self.since = time.monotonic()
        self._tell(f"{name} does not respond since {time.strftime('%H:%M:%S')}: {why.rstrip('. ')}. Trying again.")

    def back(self, name: str) -> None:
        """It answers; reported once, where it did not before."""
        with self._lock:
            since, self.since = self.since, None
            self.returned = self.returned if since is None else time.monotonic()
        if since is not None:
            self._tell(f"{name} responds again after {time.monotonic() - since:.0f} s.")


OUTAGE = Outage()


def retrying(storage: BaseStorage, name: str, is_away: IsAway) -> BaseStorage:
    """The storage, whose calls are retried while it is away."""
    from optuna.storages import BaseStorage

    for method in vars(BaseStorage):
        if not method.startswith("_") and method != "remove_session" and callable(call := getattr(storage, method)):
            setattr(storage, method, partial(OUTAGE.retry, name, is_away, call))
    return storage


def lost_connection(error: Exception) -> str:
    """Why a database is away: its connection broke, or it stops or starts; not a full disk or a long statement."""
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
    """Why an SQLite file is away: other processes keep it locked; of a file nothing else is a matter of waiting."""
    return why if "database is locked" in (why := lost_connection(error)) else ""


def unavailable(error: Exception) -> str:
    """Why a gRPC server is away: it cannot be reached, or it stopped amid a call."""
    import grpc

    code = error.code() if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call) else None
    if code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return ""
    return str(error.details() or "").strip().partition("\n")[0][:160] or "the connection broke"  # type: ignore[attr-defined]
