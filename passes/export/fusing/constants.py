"""Stored integers that no integer operator takes: as arithmetic that a session does once, when it is opened.

onnxruntime computes a DequantizeLinear of a stored weight at every call, but a Cast and a Mul of constants only once.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.values import (
    Array,
    Writer,
    activation,
    array,
    negated_bias,
    only_use,
    operand,
    stored,
)

FLOAT = 1  # ONNX's number of float32


def spread(graph: ir.Graph, write: Writer, fused: set[ir.Node]) -> None:
    """Replace every DequantizeLinear of stored codes whose readers are not in `fused`."""
    for node in [n for n in graph if n.op_type == "DequantizeLinear"]:
        if stored(node.outputs[0]) is None or node.outputs[0].dtype != ir.DataType.FLOAT:
            continue
        readers = [use.node for use in node.outputs[0].uses()]
        if any(r in fused for r in readers) or operand(node).dtype == ir.DataType.INT32:
            continue
        if all(r.op_type == "Gather" and r.attributes.get_int("axis", 0) == 0 for r in readers) and _gathered(
            node, write
        ):
            continue
        write.replace(node.outputs[0], _value(node, write))
        for reader in readers:
            _with_bias(reader, write)


def _value(node: ir.Node, write: Writer) -> ir.Value:
    """Cast, Sub of a zero point, Mul."""
    shape, like = _shape(node.inputs[0]), node.outputs[0]
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    value = write.node(node, "Cast", (node.inputs[0],), {"to": FLOAT}, like=like)
    if block and shape[axis] % block:
        return _in_uneven_blocks(node, value, shape[axis], write)
    if block:
        cut = (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])
        value = _reshaped(node, value, cut, write)
    zero = array(node.inputs[2]) if len(node.inputs) > 2 else None
    for kind, number in (("Sub", zero), ("Mul", array(node.inputs[1]))):
        if number is not None and (kind == "Mul" or number.any()):
            held = _laid(np.asarray(number).astype(np.float32), shape, axis, block)
            value = write.node(node, kind, (value, write.constant(held, name="scale")), like=value)
    return _reshaped(node, value, shape, write) if block else value


def _in_uneven_blocks(node: ir.Node, value: ir.Value, size: int, write: Writer) -> ir.Value:
    """The last block is shorter: each element takes its block's scale by index."""
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    index = write.constant(np.arange(size, dtype=np.int64) // block, name="block")
    zero = array(node.inputs[2]) if len(node.inputs) > 2 else None
    for kind, number in (("Sub", zero), ("Mul", array(node.inputs[1]))):
        if number is None:
            continue
        held = write.constant(np.asarray(number).astype(np.float32), name="scale")  # Gather takes no codes of 4 bits
        each = write.node(node, "Gather", (held, index), {"axis": axis})
        value = write.node(node, kind, (value, each), like=node.outputs[0])
    return value


def _laid(number: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Scales so that they broadcast over the codes."""
    if number.size == 1:
        return number.reshape(())
    if block:
        return np.expand_dims(number, axis + 1)
    return number.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def _reshaped(before: ir.Node, value: ir.Value, shape: tuple[int, ...], write: Writer) -> ir.Value:
    made = write.node(before, "Reshape", (value, write.constant(np.array(shape, np.int64), name="shape")))
    made.shape, made.dtype = ir.Shape(shape), ir.DataType.FLOAT
    return made


def _gathered(node: ir.Node, write: Writer) -> bool:
    """Rows of codes are gathered before they are scaled, so that an embedding stays in its bits."""
    scale, axis = array(node.inputs[1]), node.attributes.get_int("axis", 1)
    zero = array(node.inputs[2]) if len(node.inputs) > 2 else None
    narrow = operand(node).dtype not in (ir.DataType.INT8, ir.DataType.UINT8)
    if (
        scale is None
        or zero is not None
        or narrow
        or node.attributes.get_int("block_size", 0)
        or (scale.size > 1 and axis)
    ):
        return False
    for reader in [use.node for use in node.outputs[0].uses()]:
        index, like = reader.inputs[1], reader.outputs[0]
        codes = write.node(reader, "Gather", (node.inputs[0], index), {"axis": 0}, like=like, dtype=operand(node).dtype)
        value = write.node(reader, "Cast", (codes,), {"to": FLOAT}, like=like)
        factor: ir.Value = (
            write.constant(scale.reshape(()), name="scale") if scale.size == 1 else _row_scales(reader, scale, write)
        )
        write.replace(like, write.node(reader, "Mul", (value, factor), like=like))
    return True


def _row_scales(reader: ir.Node, scale: Array, write: Writer) -> ir.Value:
    held = write.constant(scale.reshape(-1, 1), name="scale")
    made = write.node(reader, "Gather", (held, reader.inputs[1]), {"axis": 0})
    made.dtype = ir.DataType.FLOAT
    return made


def _with_bias(node: ir.Node, write: Writer) -> None:
    """The negated bias that was subtracted after a convolution or product, as a bias: nothing rounds it here."""
    minus = only_use(node.outputs[0], "Sub") if node.op_type in ("Conv", "ConvTranspose", "MatMul") else None
    bias = negated_bias(node, minus)
    if minus is None or bias is None or len(node.inputs) > 2 or activation(node.inputs[0]) is not None:
        return  # onnxruntime makes int8 of float weights between quantised ends
    like = minus.outputs[0]
    if node.op_type == "MatMul":
        write.replace(like, write.node(minus, "Add", (node.outputs[0], write.constant(-bias, name="bias")), like=like))
        return
    held = write.constant(-bias.reshape(-1), name="bias")
    write.replace(like, write.node(minus, node.op_type, (*node.inputs[:2], held), dict(node.attributes), like=like))


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    held = array(value)
    return () if held is None else tuple(held.shape)
