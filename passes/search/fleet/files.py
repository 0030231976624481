"""Content-addressed files beside a storage, through which workers that share only the storage get the project.

A folder next to a journal or an SQLite file, a table in PostgreSQL, a second service on the port of a gRPC storage.
"""

from __future__ import annotations

import atexit
import hashlib
import re
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from espalier.model.errors import StorageError
from espalier.model.files import explained, placing
from espalier.model.private import redacted
from espalier.passes.search.fleet.token import metadata, refused
from espalier.passes.search.storage import TIMEOUT, address, database_url, path_of, scheme_of

CHUNK = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
SERVICE = "espalier.Files"


class Files(Protocol):
    """Files by SHA-256."""

    def has(self, digest: str) -> bool:
        """Whether the file is there."""
        ...

    def put(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Store a file."""
        ...

    def get(self, digest: str) -> Iterator[bytes]:
        """The file's bytes in pieces; raises StorageError if it is missing."""
        ...


def is_digest(text: str) -> bool:
    """Whether `text` is a SHA-256 in hexadecimal digits."""
    return bool(_DIGEST.fullmatch(text))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pieces(path: Path) -> Generator[bytes]:
    """A file's bytes, CHUNK at a time."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def keep(folder: Path, digest: str, chunks: Iterable[bytes], name: str = "") -> Path:
    """Write a file atomically and check its digest; raises StorageError. An existing file stays."""
    target = folder / (name or digest)
    if target.exists():
        return target
    with explained(target, StorageError):
        folder.mkdir(parents=True, exist_ok=True)
    checksum = hashlib.sha256()
    with placing(target, StorageError) as part:
        with part.open("wb") as file:
            for chunk in chunks:
                checksum.update(chunk)
                file.write(chunk)
        if checksum.hexdigest() != digest:
            raise _corrupted()
        part.chmod(0o644)  # other users' workers read it
    return target


def _corrupted() -> StorageError:
    return StorageError("A file arrived corrupted or incomplete.", "Start the worker again.")


def _no_digest(digest: str) -> StorageError:
    return StorageError(f"{digest[:80]!r} is no digest.", "It must be 64 hexadecimal digits.")


def _missing(digest: str) -> StorageError:
    return StorageError(f"The storage does not have the file {digest[:12]}… of this study.",
                        "Give the worker the project with --project P.espalier.")  # fmt: skip


class FolderFiles:
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def size(self) -> int:
        """The bytes of all files."""
        return sum(f.stat().st_size for f in self._folder.iterdir()) if self._folder.is_dir() else 0

    def has(self, digest: str) -> bool:
        """Whether the file is there."""
        return is_digest(digest) and (self._folder / digest).is_file()

    def put(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Keep a file."""
        if not is_digest(digest):
            raise _no_digest(digest)
        keep(self._folder, digest, chunks)

    def get(self, digest: str) -> Iterator[bytes]:
        """Its bytes."""
        if not self.has(digest):
            raise _missing(digest)
        return pieces(self._folder / digest)


class TableFiles:
    """Files in a table of a database, in pieces; an empty last piece marks a complete file."""

    def __init__(self, url: str) -> None:
        import sqlalchemy as sql

        self._engine = sql.create_engine(database_url(url), pool_pre_ping=True,
                                         connect_args={"connect_timeout": TIMEOUT})  # fmt: skip
        columns = (sql.Column("digest", sql.String(64), primary_key=True),
                   sql.Column("part", sql.Integer, primary_key=True, autoincrement=False),
                   sql.Column("data", sql.LargeBinary, nullable=False))  # fmt: skip
        self._table = sql.Table("espalier_files", sql.MetaData(), *columns)
        self._table.metadata.create_all(self._engine)

    def _rows(self, digest: str, *, empty: bool = False) -> Any:
        import sqlalchemy as sql

        query = sql.select(self._table.c.data).where(self._table.c.digest == digest).order_by(self._table.c.part)
        return query.where(sql.func.length(self._table.c.data) == 0) if empty else query

    def size(self) -> int:
        """The bytes of all files."""
        import sqlalchemy as sql

        with self._engine.connect() as database:
            return int(database.execute(sql.select(sql.func.sum(sql.func.length(self._table.c.data)))).scalar() or 0)

    def has(self, digest: str) -> bool:
        """Whether the file is there."""
        with self._engine.connect() as database:
            return database.execute(self._rows(digest, empty=True)).first() is not None

    def put(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Store a file in one transaction; of two concurrent ones, one succeeds. Raises StorageError."""
        from sqlalchemy.exc import IntegrityError

        if not is_digest(digest):
            raise _no_digest(digest)
        try:
            with self._engine.begin() as database:
                checksum = hashlib.sha256()
                for part, data in enumerate(filter(None, chunks)):
                    checksum.update(data)
                    database.execute(self._table.insert().values(digest=digest, part=part, data=data))
                if checksum.hexdigest() != digest:
                    raise _corrupted()
                database.execute(self._table.insert().values(digest=digest, part=1 << 30, data=b""))
        except IntegrityError:
            if not self.has(digest):
                raise

    def get(self, digest: str) -> Iterator[bytes]:
        """Its bytes."""
        if not self.has(digest):
            raise _missing(digest)
        with self._engine.connect().execution_options(stream_results=True, max_row_buffer=2) as database:
            for (data,) in database.execute(self._rows(digest)):
                yield bytes(data)


class GrpcFiles:
    """Files of a storage server that Espalier serves."""

    def __init__(self, url: str) -> None:
        import grpc

        host, port = address(url)
        self._url, self._rpc_error, self._metadata = url, grpc.RpcError, metadata(host, port)
        self._channel = grpc.insecure_channel(f"{host}:{port}")
        atexit.register(self._channel.close)
        self._has = self._channel.unary_unary(f"/{SERVICE}/Has")
        self._put = self._channel.stream_unary(f"/{SERVICE}/Put")
        self._get = self._channel.unary_stream(f"/{SERVICE}/Get")

    def has(self, digest: str) -> bool:
        """Whether the file is there."""
        try:
            return self._has(digest.encode(), timeout=30, metadata=self._metadata) == b"1"
        except self._rpc_error as error:
            raise self._refused(error) from error

    def put(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Keep a file."""
        try:
            self._put(chain([digest.encode()], chunks), metadata=self._metadata)
        except self._rpc_error as error:
            raise self._refused(error) from error

    def get(self, digest: str) -> Iterator[bytes]:
        """Its bytes."""
        try:
            yield from self._get(digest.encode(), metadata=self._metadata)
        except self._rpc_error as error:
            raise self._refused(error) from error

    def _refused(self, error: Any) -> StorageError:
        import grpc

        if error.code() == grpc.StatusCode.NOT_FOUND:
            return StorageError(str(error.details()), "Give the worker the project with --project P.espalier.")
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            return refused(self._url)
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return StorageError(f"{self._url} accepts no more files: {error.details()}",
                                "Remove old files of the server, or give workers --project P.espalier.")  # fmt: skip
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            return StorageError(f"{self._url} stores studies but no files, so it cannot transfer a project.",
                                "Start it with serve-storage, or give workers --project P.espalier.")  # fmt: skip
        return StorageError(f"The connection to {self._url} is lost ({error.code().name.lower()}).",
                            "Check that it still runs.")  # fmt: skip


def files_of(url: str) -> Files:
    """The files beside the storage at `url`."""
    return GrpcFiles(url) if scheme_of(url) == "grpc" else direct_files_of(url)


def direct_files_of(url: str) -> FolderFiles | TableFiles:
    """The files beside a storage without a server."""
    match scheme_of(url):
        case "postgresql":
            return TableFiles(url)
        case _:
            path = path_of(url)
            assert path is not None
            return FolderFiles(path.with_name(f"{path.name}.files"))


def describe(url: str) -> str:
    """The location of a storage's files, as a text."""
    path = path_of(url)
    return f"{path}.files" if path else redacted(url)
