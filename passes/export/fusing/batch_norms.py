"""Batch norms after convolutions of stored integers become part of their scales and biases."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.values import Array, Writer, array, negated_bias, only_use, operand, producer, stored


def fold(graph: ir.Graph, write: Writer) -> None:
    """y·g + h of a convolution y = x∗(c·s) + b is x∗(c·s·g) + (b·g + h); a negative g turns the codes' signs."""
    for norm in [n for n in graph if n.op_type == "BatchNormalization"]:
        held = [array(v) for v in norm.inputs[1:5]]
        minus = producer(norm.inputs[0], "Sub")
        node = producer(minus.inputs[0] if minus else norm.inputs[0], "Conv")
        weight = stored(node.inputs[1]) if node is not None else None
        if node is None or weight is None or any(h is None for h in held) or len(norm.outputs) > 1:
            continue
        if (
            only_use(node.outputs[0]) is not (minus or norm)
            or only_use(operand(norm)) is not norm
            or len(node.inputs) > 2
        ):
            continue
        if weight.outputs[0].uses() and len(weight.outputs[0].uses()) > 1:
            continue
        scale, shift, mean, variance = (np.asarray(h, np.float64) for h in held)
        factor = scale / np.sqrt(variance + norm.attributes.get_float("epsilon", 1e-5))
        bias = np.zeros(1) if minus is None else negated_bias(node, minus)
        if bias is None or not _scaled(weight, factor, write):
            continue
        minus_bias = -((-np.asarray(bias, np.float64).reshape(-1) - mean) * factor + shift)
        rank = len(operand(node, 1).shape or ()) - 2
        given = write.constant(minus_bias.astype(np.float32).reshape(-1, *[1] * rank), name="minus")
        write.replace(norm.outputs[0], write.node(norm, "Sub", (node.outputs[0], given), like=norm.outputs[0]))


def _scaled(weight: ir.Node, factor: Array, write: Writer) -> bool:
    """Multiply the channels of a stored weight; False where its codes or scales do not allow it."""
    codes, scale = array(weight.inputs[0]), array(weight.inputs[1])
    if codes is None or scale is None or weight.attributes.get_int("axis", 0) != 0 or len(weight.inputs) > 2:
        return False
    kind = weight.inputs[0].dtype if weight.inputs[0] else None
    low = {ir.DataType.INT4: -8, ir.DataType.INT8: -128}.get(kind) if kind is not None else None
    turned = factor < 0
    wide = codes.astype(np.int64)
    if low is None or kind is None or weight.attributes.get_int("block_size", 0) or (wide[turned] == low).any():
        return False
    wide[turned] *= -1
    wide[factor == 0] = 0  # a scale of 0 would take the steps from its bias
    weight.replace_input_with(0, write.constant(wide.astype(kind.numpy()), kind, name=operand(weight).name or "codes"))
    by_channel = (scale.reshape(-1) * np.where(factor == 0, 1.0, np.abs(factor))).astype(np.float32)
    weight.replace_input_with(1, write.constant(np.broadcast_to(by_channel, factor.shape).copy(), name="scale"))
    weight.attributes["axis"] = ir.AttrInt64("axis", 0)
    return True
