"""Whether OpenVINO's 8-bit products overflow on this processor: one product, beside the sum by hand."""

from __future__ import annotations

from espalier.model.leftovers import scratch
from espalier.passes.export.openvino.child import OpenVINO

DEPTH, LARGEST, CODE = 64, 255, 127  # products that are added, of an unsigned activation and a weight


def overflow(process: OpenVINO) -> str:
    """What happens and how to avoid it; empty where products are right. Raises ExportError."""
    import numpy as np
    import torch
    from onnx import TensorProto, helper, numpy_helper, save

    scale, zero = (
        numpy_helper.from_array(np.array(1, np.float32), "scale"),
        numpy_helper.from_array(np.array(0, np.uint8), "zero"),
    )
    weight = numpy_helper.from_array(np.full((DEPTH, 8), CODE, np.int8), "codes")
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
             helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"]),
             helper.make_node("MatMul", ["d", "w"], ["y"])]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, DEPTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])
    graph = helper.make_graph(nodes, "product", [x], [y], [scale, zero, weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with scratch() as folder:
        save(model, str(folder / "product.onnx"))
        process.convert(folder / "product.onnx", folder / "product.xml")
        x = torch.full((2, DEPTH), float(LARGEST))
        got = float(process.run(folder / "product.xml", {"x": x}, threads=0)[0].min())
    if got == DEPTH * LARGEST * CODE:
        return ""
    return (
        f"OpenVINO's 8-bit products overflow on this processor: {DEPTH} times {LARGEST} times {CODE} gives {got:.0f}. "
        "Weights of 7 bits (scaled_integer(width=7)) avoid that, and so do processors with VNNI."
    )
