"""Optuna's gRPC client with the server's token, a timeout for each call, and a size limit of responses."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
from optuna.storages import GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2_grpc
from optuna.storages._grpc.client import GrpcClientCache

from espalier.passes.search.fleet.token import metadata
from espalier.passes.search.outage import OUTAGE

MAX_RESPONSE = 512 << 20  # bytes
_OPTIONS = (("grpc.max_receive_message_length", MAX_RESPONSE), ("grpc.initial_reconnect_backoff_ms", 500),
            ("grpc.max_reconnect_backoff_ms", 5000))  # fmt: skip


class _Stub:
    """Optuna's stub with the token and a timeout in each call."""

    def __init__(self, channel: grpc.Channel, token: tuple[tuple[str, str], ...]) -> None:
        self._stub: Any = api_pb2_grpc.StorageServiceStub(channel)  # type: ignore[no-untyped-call]
        self._token = token

    def __getattr__(self, method: str) -> Any:
        return partial(getattr(self._stub, method), metadata=self._token, timeout=OUTAGE.limit)


class GrpcClient(GrpcStorageProxy):
    """Optuna's storage proxy on such a stub."""

    def _setup(self) -> None:
        proxy: Any = self
        proxy._channel = grpc.insecure_channel(f"{proxy._host}:{proxy._port}", options=_OPTIONS)
        stub: Any = _Stub(proxy._channel, metadata(proxy._host, proxy._port))
        proxy._stub, proxy._cache = stub, GrpcClientCache(stub)
