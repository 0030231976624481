"""Optuna's gRPC client, but a server that goes away for a while is waited for: it may be moved or started anew."""

from __future__ import annotations

import json
from typing import Any

import grpc
from optuna.storages import GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2_grpc
from optuna.storages._grpc.client import GrpcClientCache

from espalier.passes.search.fleet.token import metadata
from espalier.passes.search.outage import LIMIT, OUTAGE
from espalier.passes.search.storage import reason

MOST_RECEIVED = 512 << 20  # bytes of an answer
_CONFIG = {"methodConfig": [{
    "name": [{}], "waitForReady": True, "timeout": f"{LIMIT:.0f}s",
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.5s", "maxBackoff": "10s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]},
}]}  # fmt: skip


def _heard(state: grpc.ChannelConnectivity, name: str) -> None:
    """A connection that breaks is told at once, also while no call is under way."""
    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
        OUTAGE.away(name, "the connection broke")
    elif state is grpc.ChannelConnectivity.READY:
        OUTAGE.back(name)


class _Watched:
    """A stub whose calls are known while they wait."""

    def __init__(self, stub: Any, name: str, metadata: tuple[tuple[str, str], ...]) -> None:
        self._stub, self._name, self._metadata = stub, name, metadata

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._stub, method)

        def watched(*args: Any, **more: Any) -> Any:
            said = {"timeout": OUTAGE.limit, "metadata": self._metadata, **more}
            with OUTAGE.calling(self._name):
                return OUTAGE.patiently(self._name, lambda: call(*args, **said), _gone)

        return watched


def _gone(error: Exception) -> str:
    """Why a server is away: it cannot be reached, or it stopped amid a call."""
    code = error.code() if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call) else None
    away = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    return reason(error) or "the connection broke" if away else ""


class PatientProxy(GrpcStorageProxy):
    """The same, on a channel that tries again."""

    def _setup(self) -> None:
        held: Any = self
        options = [("grpc.max_receive_message_length", MOST_RECEIVED), ("grpc.service_config", json.dumps(_CONFIG)),
                   ("grpc.initial_reconnect_backoff_ms", 500), ("grpc.max_reconnect_backoff_ms", 5000)]  # fmt: skip
        held._channel = grpc.insecure_channel(f"{held._host}:{held._port}", options=options)
        name = f"grpc://{held._host}:{held._port}"
        held._channel.subscribe(lambda state: _heard(state, name))
        stub: Any = _Watched(api_pb2_grpc.StorageServiceStub(held._channel), name, metadata(held._host, held._port))  # type: ignore[no-untyped-call]
        held._stub = stub
        held._cache = GrpcClientCache(stub)
