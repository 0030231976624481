"""Serves a storage over gRPC: Optuna's proxy and the storage's files on one port."""

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
from espalier.passes.search.fleet.files import SERVICE, Files, FolderFiles, TableFiles, direct_files_of
from espalier.passes.search.fleet.token import KEY
from espalier.passes.search.storage import open_storage, require_grpc

if TYPE_CHECKING:
    import grpc

THREADS = 32
MESSAGE = 16 << 20  # bytes of a request, at most
ADDRESSES = "Write 127.0.0.1, 0.0.0.0 or the name of this machine."
FILES = int(os.environ.get("ESPALIER_FILES", 10 * 10**9))  # bytes of all files of a server, at most


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Quota:
    """The remaining bytes for files of a server. `limit`: of all files; `used`: by present ones."""

    def __init__(self, limit: int, used: int) -> None:
        self._remaining, self._lock = limit - used, threading.Lock()
        self._counted: set[str] = set()  # digests of files that were put

    def limited(self, chunks: Iterator[bytes]) -> Generator[bytes]:
        """The chunks, counted; raises QuotaError past the limit. The caller returns what is not stored."""
        for chunk in chunks:
            with self._lock:
                if len(chunk) > self._remaining:
                    raise QuotaError(f"all files together may take {FILES / 1e9:.0f} GB.")
                self._remaining -= len(chunk)
            yield chunk

    def put(self, files: Files, digest: str, chunks: Iterator[bytes]) -> None:
        """Store a file and count it once."""
        exists, is_new, size = files.has(digest), False, 0

        def counted() -> Generator[bytes]:
            nonlocal size
            for chunk in self.limited(chunks):
                size += len(chunk)
                yield chunk

        try:
            files.put(digest, counted())
            with self._lock:  # two clients may store one file at once
                is_new = not exists and digest not in self._counted
                self._counted.add(digest)
        finally:
            if not is_new:
                with self._lock:
                    self._remaining += size


class QuotaError(StorageError):
    """A file exceeds the quota of a server."""


def serve(url: str, host: str, port: int, token: Callable[[int], str] | None = None) -> tuple[grpc.Server, int]:
    """Serve the storage at `url`; returns the running server and its port (`port` 0: any free one).

    `token`: port → the token of clients; None: no token is needed. Raises StorageError if the storage cannot be opened
    or the port is in use.
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
    server.add_generic_rpc_handlers((_file_service(direct_files_of(url)),))
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
        addresses = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError as error:
        return StorageError(f"The address {host} cannot be found ({error.strerror}).", ADDRESSES)
    try:
        with socket.socket(addresses[0][0], socket.SOCK_STREAM) as probe:
            probe.bind(addresses[0][4])
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return StorageError(f"{host} is no address of this machine.", ADDRESSES)
        return StorageError(f"Port {port} of {host} cannot be used ({error.strerror}).", "Choose another with --port.")
    return StorageError(f"Port {port} of {host} cannot be used.", "Choose another with --port, or try again.")


def _guard() -> Any:
    """An interceptor that refuses every call without the token before its message is read."""
    import grpc

    class Guard(grpc.ServerInterceptor):
        token = ""

        def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            metadata = handler_call_details.invocation_metadata
            token = next((v for k, v in metadata if k == KEY and isinstance(v, str)), "")
            valid = bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())
            return continuation(handler_call_details) if valid else refusal

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
