"""Sessions of onnxruntime whose 8-bit products do not overflow, on processors without VNNI too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from espalier.passes.export.compare import PRECISE


def precise_session(model: str | Path | bytes) -> Any:
    """A session on the processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*PRECISE)
    given = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
