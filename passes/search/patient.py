"""Optuna's gRPC client, but a server that goes away for a while is waited for: it may be moved or started anew."""

from __future__ import annotations

import json
from typing import Any

import grpc
from optuna.storages import GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2_grpc
from optuna.storages._grpc.client import GrpcClientCache

WAIT = 300  # seconds
_CONFIG = {"methodConfig": [{
    "name": [{}], "waitForReady": True, "timeout": f"{WAIT}s",
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.5s", "maxBackoff": "10s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]},
}]}  # fmt: skip


class PatientProxy(GrpcStorageProxy):
    """The same, on a channel that tries again."""

    def _setup(self) -> None:
        held: Any = self
        options = [("grpc.max_receive_message_length", -1), ("grpc.service_config", json.dumps(_CONFIG)),
                   ("grpc.initial_reconnect_backoff_ms", 500), ("grpc.max_reconnect_backoff_ms", 5000)]  # fmt: skip
        held._channel = grpc.insecure_channel(f"{held._host}:{held._port}", options=options)
        held._stub = api_pb2_grpc.StorageServiceStub(held._channel)  # type: ignore[no-untyped-call]
        held._cache = GrpcClientCache(held._stub)
