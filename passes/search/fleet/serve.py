"""A storage over gRPC: Optuna's proxy with the storage's files beside it, on one port."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from espalier.model.errors import StorageError
from espalier.passes.search.fleet.files import SERVICE, Files, FolderFiles, TableFiles, own_files_of
from espalier.passes.search.fleet.token import KEY
from espalier.passes.search.storage import open_storage, require_grpc

if TYPE_CHECKING:
    import grpc

THREADS = 32
MESSAGE = 16 << 20  # bytes of a message that a client sends
ADDRESSES = "Write 127.0.0.1, 0.0.0.0 or the name of this machine."
FILES = int(os.environ.get("ESPALIER_FILES", 10 * 10**9))  # bytes of all files of a server


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Quota:
    """How many bytes of files a server still takes."""

    def __init__(self, most: int, held: int) -> None:
        self._left, self._lock = most - held, threading.Lock()
        self._counted: set[str] = set()  # digests of files that were put

    def limited(self, chunks: Iterator[bytes]) -> Generator[bytes]:
        """The same chunks; raises QuotaError past the limit. What is not kept in the end is to be given back."""
        for chunk in chunks:
            with self._lock:
                if len(chunk) > self._left:
                    raise QuotaError(f"all files together may take {FILES / 1e9:.0f} GB.")
                self._left -= len(chunk)
            yield chunk

    def put(self, files: Files, digest: str, chunks: Iterator[bytes]) -> None:
        """Keep a file, counted once."""
        known, kept, taken = files.has(digest), False, 0

        def counted() -> Generator[bytes]:
            nonlocal taken
            for chunk in self.limited(chunks):
                taken += len(chunk)
                yield chunk

        try:
            files.put(digest, counted())
            with self._lock:  # two may put one file at once
                kept = not known and digest not in self._counted
                self._counted.add(digest)
        finally:
            if not kept:
                with self._lock:
                    self._left += taken


class QuotaError(StorageError):
    """A file that a server has no room for."""


def serve(url: str, host: str, port: int, token: Callable[[int], str] | None = None) -> tuple[grpc.Server, int]:
    """Serve the storage at `url`; returns the server, which runs, and its port (`port` 0: any that is free).

    `token`: by port, what clients must say; without it everybody is served. Raises StorageError where the storage
    cannot be opened or the port is taken.
    """
    require_grpc()
    import grpc
    from optuna.storages._grpc.auto_generated import api_pb2_grpc
    from optuna.storages._grpc.servicer import OptunaStorageProxyService

    storage = open_storage(url)
    bounds = [("grpc.max_receive_message_length", MESSAGE), ("grpc.max_metadata_size", 16 << 10),
              ("grpc.so_reuseport", 0)]  # fmt: skip
    guard = _guard()
    server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="storage"), options=bounds,
                         interceptors=[guard] if token else [])  # fmt: skip
    api_pb2_grpc.add_StorageServiceServicer_to_server(OptunaStorageProxyService(storage), server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((_file_service(own_files_of(url)),))
    try:
        bound = server.add_insecure_port(f"{f'[{host}]' if ':' in host and '[' not in host else host}:{port}")
    except RuntimeError as error:
        raise _refused(host, port) from error
    if not bound:
        raise _refused(host, port)
    if token:
        guard.token = token(bound)
    server.start()
    return server, bound


def _refused(host: str, port: int) -> StorageError:
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError as error:
        return StorageError(f"The address {host} cannot be found ({error.strerror}).", ADDRESSES)
    try:
        with socket.socket(found[0][0], socket.SOCK_STREAM) as tried:
            tried.bind(found[0][4])
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return StorageError(f"{host} is no address of this machine.", ADDRESSES)
        return StorageError(f"Port {port} of {host} cannot be used ({error.strerror}).", "Choose another with --port.")
    return StorageError(f"Port {port} of {host} cannot be used.", "Choose another with --port, or try again.")


def _guard() -> Any:
    """Refuses every call without the token, of studies as of files, before a byte of its message is read."""
    import grpc

    class Guard(grpc.ServerInterceptor):
        token = ""

        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            said = next((v for k, v in handler_call_details.invocation_metadata if k == KEY and isinstance(v, str)), "")
            known = bool(self.token) and hmac.compare_digest(said.encode(), self.token.encode())
            return continuation(handler_call_details) if known else refusal

    def refuse(requests: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "The token is missing or wrong.")

    refusal = grpc.stream_stream_rpc_method_handler(refuse)
    return Guard()


def _file_service(files: FolderFiles | TableFiles) -> Any:
    import grpc

    quota = Quota(FILES, files.size())

    def has(request: bytes, context: Any) -> bytes:
        return b"1" if files.has(request.decode(errors="replace")) else b""

    def put(requests: Iterator[bytes], context: Any) -> bytes:
        try:
            quota.put(files, next(requests, b"").decode(errors="replace"), requests)
        except QuotaError as error:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)
        except StorageError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
        return b"1"

    def get(request: bytes, context: Any) -> Iterator[bytes]:
        try:
            yield from files.get(request.decode(errors="replace"))
        except StorageError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, error.message)

    return grpc.method_handlers_generic_handler(SERVICE, {
        "Has": grpc.unary_unary_rpc_method_handler(has),
        "Put": grpc.stream_unary_rpc_method_handler(put),
        "Get": grpc.unary_stream_rpc_method_handler(get),
    })  # fmt: skip
