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


def skip_if_products_overflow() -> None:
    """Skip a test where 8-bit products overflow in fused operators that no option of onnxruntime mends.

    Two products of 255 · 127 exceed 16 bits; the sum by hand is 64 · 255 · 127.
    """
    import numpy as np
    import onnxruntime
    import pytest
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["y"])]
    weight = numpy_helper.from_array(np.full((64, 8), 127, np.int8), "b")
    x = helper.make_tensor_value_info("a", TensorProto.UINT8, [2, 64])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [2, 8])
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight]),
                              opset_imports=[helper.make_opsetid("", 21)], ir_version=10)  # fmt: skip
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = session.run(None, {"a": np.full((2, 64), 255, np.uint8)})[0]
    if (got != 64 * 255 * 127).any():
        pytest.skip("onnxruntime's 8-bit products overflow on this processor")
