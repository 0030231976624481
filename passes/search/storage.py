"""Opens Optuna storages by URL or file path.

journal:PATH, sqlite:///PATH, postgresql://…, grpc://host:port; a plain path ending in .journal, .jsonl or .db.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import warnings
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote, urlsplit

from espalier.model.borders import refuse_endless
from espalier.model.errors import Damage, StorageError, nearest
from espalier.model.private import redacted
from espalier.passes.search.outage import locked_file, lost_connection, retrying, unavailable

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study

    from espalier.passes.search.identity import Identity

TIMEOUT = 5  # seconds after which a server counts as unreachable
PORT = 13000
STORAGE_VARIABLE = "ESPALIER_STORAGE"  # a URL in the environment: arguments are visible to all users of the machine
FIRST_LINES = 20  # of a journal, one of which must be a record
Direction = Literal["minimize", "maximize"]
FINGERPRINT, PARTS = "fingerprint", "parts"
KINDS = "journal:PATH, sqlite:///PATH, postgresql://user@host/name or grpc://host:port"
_SQLITE = b"SQLite format 3\x00"
_FILES = {".journal": "journal", ".jsonl": "journal", ".log": "journal",
          ".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite"}  # fmt: skip
_DRIVERS = {"psycopg2": "postgresql+psycopg2", "psycopg": "postgresql+psycopg"}


def scheme_of(url: str) -> str:
    """journal, sqlite, postgresql or grpc; raises StorageError."""
    head, colon, _ = url.partition(":")
    scheme = head.partition("+")[0].lower() if colon and len(head) > 1 else _FILES.get(Path(url).suffix.lower(), "")
    scheme = "postgresql" if scheme == "postgres" else scheme
    if scheme not in ("journal", "sqlite", "postgresql", "grpc"):
        raise StorageError(f"{url!r} names no storage of studies.", f"Write {KINDS}.")
    return scheme


def path_of(url: str) -> Path | None:
    """The file of a journal or an SQLite storage (journal:///x and sqlite:////x begin at the root), or None."""
    scheme = scheme_of(url)
    if scheme not in ("journal", "sqlite"):
        return None
    if ":" not in url or re.match(r"[A-Za-z]:[\\/]", url):
        return Path(url).expanduser()
    path = url.partition(":")[2].partition("?")[0]
    if scheme == "sqlite":  # as SQLAlchemy reads it: three slashes are relative, four begin at the root
        path = path.removeprefix("///")
    elif path.startswith("//"):
        path = re.sub("^/+", "/", path[2:])
    if not path:
        raise StorageError(f"{url!r} names no file.", f"Write {KINDS}.")
    return Path(unquote(path)).expanduser()


def journal_url(path: Path) -> str:
    """The URL of a journal file."""
    return f"journal://{quote(str(path.resolve()))}"


# -- opening


def open_storage(url: str) -> BaseStorage:
    """The storage at `url`; creates a missing file. Raises StorageError."""
    match scheme_of(url):
        case "journal":
            return _journal(url)
        case "sqlite":
            return _sqlite(url)
        case "postgresql":
            return _postgresql(url)
        case _:
            return _grpc(url)


def _path(url: str) -> Path:
    path = path_of(url)
    assert path is not None
    if path.is_dir():
        raise StorageError(f"{path} is a folder.", "Name a file in it, such as study.journal.")
    if not path.parent.is_dir():
        raise StorageError(f"There is no folder {path.parent}.", "Make it, or choose another.")
    try:
        refuse_endless(path)
    except Damage as error:
        raise StorageError(f"{path} cannot be opened: {error}.", "Choose a file.") from error
    return path


def _journal(url: str) -> BaseStorage:
    from espalier.passes.search.journal_file import Journal

    path = _path(url)
    try:
        if path.exists():
            _refuse_other_files(path)
        return Journal(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    except (LookupError, TypeError, ValueError, AssertionError) as error:
        raise StorageError(f"The journal {path.name} cannot be read ({type(error).__name__}: {error}).",
                           "Choose another file, or an older copy of it.") from error  # fmt: skip


def _refuse_other_files(path: Path) -> None:
    """Raise StorageError unless one of the first lines is a record, or the first is a partial record."""
    from espalier.passes.search.journal_records import BEGIN, parse_line

    with path.open("rb") as file:
        first = file.readline(1 << 24)
        if first.startswith(_SQLITE):
            raise StorageError(f"{path.name} is an SQLite database, not a journal.", f"Write sqlite:///{path}.")
        cut_off = not first.endswith(b"\n") and first[: len(BEGIN)] == BEGIN[: len(first)]
        lines = [first, *(file.readline(1 << 20) for _ in range(FIRST_LINES))]
    if not cut_off and not any(map(parse_line, lines)):
        raise StorageError(f"{path.name} is not a journal of studies.", "Choose another file.")


def damage_of(storage: BaseStorage) -> str:
    """A sentence on unreadable records of a storage; empty if there are none."""
    return str(getattr(storage, "damage", ""))


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be opened ({error.strerror}).", "Choose a file that may be written.")


def _sqlite(url: str) -> BaseStorage:
    path = _path(url)
    try:
        if path.exists():
            with path.open("rb") as file:
                first = file.read(16)
            if first and first != _SQLITE:
                raise StorageError(f"{path.name} is not an SQLite database.", "Choose another file.")
        else:
            path.touch()
    except OSError as error:
        raise _unwritable(path, error) from error
    from espalier.passes.search.journal_file import system_lock

    with system_lock(path.parent):  # two workers that begin at once would both create the tables
        storage = _database(f"sqlite:///{path.absolute()}", url, {"timeout": 60})
    _serialise_transactions(storage)
    return retrying(storage, redacted(url), locked_file)


def _serialise_transactions(storage: BaseStorage) -> None:
    """Lock the SQLite database from the beginning of each transaction; else two workers could claim the same trial."""
    from sqlalchemy import event

    untyped: Any = storage
    engine: Any = untyped._backend.engine

    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def opened(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver begins no transactions itself

    engine.dispose()
    event.listen(engine, "connect", opened)
    event.listen(engine, "begin", begin)


def _postgresql(url: str) -> BaseStorage:
    storage = _database(database_url(url), url, {"connect_timeout": TIMEOUT}, pool_pre_ping=True)
    return retrying(storage, redacted(url), lost_connection)


def database_url(url: str) -> str:
    """A postgresql:// URL with an installed driver, as SQLAlchemy needs it; raises StorageError."""
    scheme, colon, location = url.partition(":")
    if "+" not in scheme:
        scheme = next((s for m, s in _DRIVERS.items() if importlib.util.find_spec(m)), "")
        if not scheme:
            raise _missing("PostgreSQL", "psycopg2-binary")
    if "//" not in location or not urlsplit(f"postgresql{colon}{location}").path.strip("/"):
        raise StorageError(f"{redacted(url)!r} names no database.", "Write postgresql://user:password@host:5432/name.")
    return f"{scheme}:{location}"


def _missing(subject: str, package: str) -> StorageError:
    return StorageError(f"{subject} needs the package {package}, which is not installed.",
                        f"Type: pip install {package} (or pip install 'espalier[fleet]').")  # fmt: skip


def _database(full: str, url: str, connect: dict[str, Any], **engine: Any) -> BaseStorage:
    """Optuna's storage in a database that is empty or has Optuna's tables; raises StorageError for any other."""
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage, get_storage
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    def connected() -> BaseStorage:
        _refuse_foreign(full, url, connect)
        return get_storage(RDBStorage(full, engine_kwargs={"connect_args": connect, **engine}))

    try:
        try:
            return connected()
        except SQLAlchemyError as error:
            if not _created_meanwhile(error):
                raise
            return connected()  # another process was creating the tables, and has done so now
    except (NoSuchModuleError, ImportError) as error:
        raise _missing(redacted(url), "psycopg2-binary") from error
    except (SQLAlchemyError, StorageInternalError) as error:
        raise _unreachable(url, str(getattr(error, "orig", None) or error.__cause__ or error)) from error
    except RuntimeError as error:  # from Optuna: its tables are of another version
        raise StorageError(f"{redacted(url)} was written by another version of Optuna.", str(error)) from error


def _created_meanwhile(error: BaseException) -> bool:
    """Whether another process created the same tables at the same moment, as PostgreSQL reports it."""
    cause: Any = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state in ("42P07", "42710", "23505") or "already exists" in str(cause) or "pg_type_typname" in str(cause)


def _refuse_foreign(full: str, url: str, connect: dict[str, Any]) -> None:
    from sqlalchemy import create_engine, inspect

    engine = create_engine(full, connect_args=connect)
    try:
        tables = set(inspect(engine).get_table_names())
    finally:
        engine.dispose()
    if tables and not {"studies", "trials", "version_info"} <= tables:
        raise StorageError(f"{redacted(url)} holds other tables ({', '.join(sorted(tables)[:3])}), not studies.",
                           "Give the studies a database of their own.")  # fmt: skip


def outages() -> tuple[type[BaseException], ...]:
    """The errors of a storage whose connection breaks."""
    from optuna.exceptions import StorageInternalError

    errors: list[type[BaseException]] = [StorageInternalError]
    with contextlib.suppress(ImportError):
        import grpc

        errors.append(grpc.RpcError)
    with contextlib.suppress(ImportError):
        from sqlalchemy.exc import OperationalError

        errors.append(OperationalError)
    return tuple(errors)


def reason(error: BaseException) -> str:
    """A library's reason for an outage, in a line."""
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error.__cause__ or error).strip().partition("\n")[0][:160]


def disconnected(url: str, error: BaseException) -> StorageError:
    """The error of a storage whose connection is lost."""
    return StorageError(f"The connection to {redacted(url)} is lost: {reason(error).rstrip('. ')}.",
                        "Start it again, then resume the search: ended trials are stored.")  # fmt: skip


def _unreachable(url: str, why: str) -> StorageError:
    reason = " ".join(why.strip().partition("\n")[0].split())[:200].rstrip(". ")
    return StorageError(f"{redacted(url)} cannot be reached: {reason}.",
                        "Check that it runs, and check host, port and password.")  # fmt: skip


def require_grpc() -> None:
    """Raise StorageError if a package for gRPC is missing, and silence the log of its C library."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for module, package in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
        try:
            module_spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            module_spec = None
        if module_spec is None:
            raise _missing("A storage over gRPC", package)


def address(url: str) -> tuple[str, int]:
    """Host and port of a grpc:// URL; raises StorageError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORT
    except ValueError as error:
        raise StorageError(f"{url!r} has no valid port.", "Write grpc://host:13000.") from error
    if not host or parts.path.strip("/"):
        raise StorageError(f"{url!r} is no address.", "Write grpc://host:13000.")
    return (f"[{host}]" if ":" in host else host), port


def _grpc(url: str) -> BaseStorage:
    host, port = address(url)
    require_grpc()
    import grpc

    from espalier.passes.search.fleet.token import refused
    from espalier.passes.search.grpc_client import GrpcClient

    with _quiet():
        storage = GrpcClient(host=host, port=port)
    atexit.register(storage.close)  # an open one would wait at exit for a thread that has ended
    try:
        storage.wait_server_ready(TIMEOUT)
        storage.get_all_studies()
    except ConnectionError as error:
        storage.close()
        raise _unreachable(url, f"no answer within {TIMEOUT} s") from error
    except grpc.RpcError as error:
        storage.close()
        if isinstance(error, grpc.Call) and error.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise refused(url) from error
        raise StorageError(f"{url} is not a storage of studies.", "Start one with main.py serve-storage.") from error
    return retrying(storage, f"grpc://{host}:{port}", unavailable)


# -- studies


def study_names(storage: BaseStorage) -> list[str]:
    """The studies of a storage, in order of creation."""
    return [s.study_name for s in storage.get_all_studies()]


def open_study(
    storage: BaseStorage,
    name: str,
    directions: Sequence[Direction],
    identity: Identity | str,
    sampler: BaseSampler | None = None,
) -> Study:
    """The study of that name, created if missing. `identity`: what it is of, or its fingerprint alone.

    Raises StorageError if the study has another fingerprint, and says what differs where that is known.
    """
    import optuna
    from optuna.exceptions import DuplicatedStudyError

    from espalier.passes.search.identity import Identity

    own = Identity(identity) if isinstance(identity, str) else identity
    with _quiet():
        try:
            study = optuna.create_study(storage=storage, study_name=name, directions=list(directions), sampler=sampler)
            _note_identity(study, own)
            return study
        except DuplicatedStudyError:
            study = optuna.load_study(study_name=name, storage=storage, sampler=sampler)
    stored, stored_directions = study.user_attrs.get(FINGERPRINT), [d.name.lower() for d in study.directions]
    if stored is None and study.trials and "espalier" not in study.user_attrs:
        raise StorageError(f"The study {name!r} in this storage is not from Espalier.", "Choose another name.")
    if stored is None:  # another worker has just created it, or died then
        _note_identity(study, own)
    elif stored not in (own.fingerprint, own.before) or stored_directions != list(directions):
        differing = own.differing(study.user_attrs.get(PARTS))
        told = "varies something else, or is of another model or other data"
        if differing:
            *others, last = differing
            told = f"has {' and '.join(filter(None, (', '.join(others), last)))}"
        raise StorageError(f"The study {name!r} {told}.",
                           "Choose another name for this search, or open the search of that study.")  # fmt: skip
    return study


def _note_identity(study: Study, own: Identity) -> None:
    """Store what a new study is of; its fingerprint last, which others wait for."""
    if own.parts:
        study.set_user_attr(PARTS, dict(own.parts))
    study.set_user_attr(FINGERPRINT, own.fingerprint)


def load_study(storage: BaseStorage, name: str, sampler: BaseSampler | None = None) -> Study:
    """An existing study; raises StorageError with the nearest name."""
    import optuna

    try:
        with _quiet():
            return optuna.load_study(study_name=name, storage=storage, sampler=sampler)
    except KeyError as error:
        raise StorageError(f"The storage has no study {name!r}.", nearest(name, study_names(storage))) from error


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Silence Optuna's messages on created studies and experimental parts."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
