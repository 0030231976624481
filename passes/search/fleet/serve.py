"""A storage over gRPC: Optuna's proxy with the storage's files beside it, on one port."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from model.errors import StorageError
from passes.search.fleet.files import SERVICE, Files, files_of
from passes.search.storage import open_storage, require_grpc

if TYPE_CHECKING:
    import grpc

THREADS = 32


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serve(url: str, host: str, port: int) -> tuple[grpc.Server, int]:
    """Serve the storage at `url`; returns the server, which runs, and its port (`port` 0: any that is free).

    Raises StorageError where the storage cannot be opened or the port is taken.
    """
    require_grpc()
    import grpc
    from optuna.storages._grpc.auto_generated import api_pb2_grpc
    from optuna.storages._grpc.servicer import OptunaStorageProxyService

    storage = open_storage(url)
    unbounded = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="storage"), options=unbounded)
    api_pb2_grpc.add_StorageServiceServicer_to_server(OptunaStorageProxyService(storage), server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((_file_service(files_of(url)),))
    try:
        bound = server.add_insecure_port(f"{f'[{host}]' if ':' in host and '[' not in host else host}:{port}")
    except RuntimeError as error:
        raise _refused(host, port) from error
    if not bound:
        raise _refused(host, port)
    server.start()
    return server, bound


def _refused(host: str, port: int) -> StorageError:
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except OSError:
        return StorageError(f"{host} is no address of this machine.", "Write 127.0.0.1, 0.0.0.0 or its name.")
    return StorageError(f"Port {port} of {host} cannot be used; perhaps it is taken.", "Choose another with --port.")


def _file_service(files: Files) -> Any:
    import grpc

    def has(request: bytes, context: Any) -> bytes:
        return b"1" if files.has(request.decode(errors="replace")) else b""

    def put(requests: Iterator[bytes], context: Any) -> bytes:
        try:
            files.put(next(requests, b"").decode(errors="replace"), requests)
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
