"""Scales that an activation's own values give: codes and integer products where stored integers follow, else values.

A symmetric format is exact: max|x|/q is one division, and codes are whole numbers. DynamicQuantizeLinear is the 8-bit
format without symmetry, but for the last bit of its scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.layers import simple, widen
from espalier.passes.export.fusing.values import Writer, array, layer_of, negated_bias, only_use, operand, stored

OPERATOR, DOMAIN = "FromData", "espalier"
TINY = np.float32(2.0**-126)  # the scale of zeros
INT8 = 128
_FLOAT, _UINT8 = 1, 2


@dataclass(frozen=True, slots=True)
class _Codes:
    """uint8 codes with their scale (a number, or one for each row) and zero point."""

    codes: ir.Value
    scale: ir.Value
    zero: ir.Value


def expand(graph: ir.Graph, write: Writer) -> set[str]:
    """Replace the exporter's own operator by ONNX's; returns the paths of the layers that then multiply integers."""
    paths = set[str]()
    for node in [n for n in graph if n.op_type == OPERATOR and n.domain == DOMAIN]:
        readers = [use.node for use in node.outputs[0].uses()]
        takers = [r for r in readers if _takes_codes(r, node)]
        made = _codes(node, write)
        for reader in takers:
            paths.add(layer_of(stored(reader.inputs[1])))
            _product(reader, made, write)
        if node.outputs[0].uses() or node.outputs[0].is_graph_output():
            write.replace(node.outputs[0], _value(node, made, write))
    return paths


def _codes(node: ir.Node, write: Writer) -> _Codes:
    x, rows = operand(node), node.attributes.get_int("rows", 0)
    if not node.attributes.get_int("symmetric", 1):
        codes = write.node(node, "DynamicQuantizeLinear", (x,), outputs=3, like=x, dtype=ir.DataType.UINT8)
        home = codes.producer()
        assert home is not None
        scale, zero = home.outputs[1:]
        for value, dtype in ((scale, ir.DataType.FLOAT), (zero, ir.DataType.UINT8)):
            value.dtype, value.shape = dtype, ir.Shape(())
        return _Codes(codes, scale, zero)
    zero = write.constant(np.array(INT8, np.uint8), name="zero")
    size = write.node(node, "Abs", (x,), like=x)
    given = [size, write.constant(np.array([-1], np.int64), name="axes")] if rows else [size]
    most = write.node(node, "ReduceMax", given, {"keepdims": rows}, like=None)
    top = write.constant(np.array(node.attributes.get_int("top", 127), np.float32), name="top")
    scale = write.node(node, "Div", (most, top))
    scale = write.node(node, "Max", (scale, write.constant(np.array(TINY), name="least")))
    most.dtype = scale.dtype = ir.DataType.FLOAT
    scale.shape = ir.Shape([*(x.shape or [None])[:-1], 1] if rows else ())
    if not rows:
        codes = write.node(node, "QuantizeLinear", (x, scale, zero), like=x, dtype=ir.DataType.UINT8)
        return _Codes(codes, scale, zero)
    steps = write.node(node, "Round", (write.node(node, "Div", (x, scale), like=x),), like=x)
    above = write.node(node, "Add", (steps, write.constant(np.array(INT8, np.float32), name="zero")), like=x)
    return _Codes(write.node(node, "Cast", (above,), {"to": _UINT8}, like=x, dtype=ir.DataType.UINT8), scale, zero)


def _value(node: ir.Node, made: _Codes, write: Writer) -> ir.Value:
    like = node.outputs[0]
    if not node.attributes.get_int("rows", 0):
        return write.node(node, "DequantizeLinear", (made.codes, made.scale, made.zero), like=like)
    whole = write.node(node, "Cast", (made.codes,), {"to": _FLOAT}, like=like)
    less = write.node(node, "Sub", (whole, write.constant(np.array(INT8, np.float32), name="zero")), like=like)
    return write.node(node, "Mul", (less, made.scale), like=like)


def _takes_codes(reader: ir.Node, node: ir.Node) -> bool:
    """Whether a reader is a product with stored integers. ConvInteger is slower than a convolution in float."""
    if reader.op_type != "MatMul" or reader.domain or reader.inputs[0] is not node.outputs[0]:
        return False
    weight = stored(reader.inputs[1])
    return weight is not None and simple(weight)


def _product(reader: ir.Node, made: _Codes, write: Writer) -> None:
    """MatMulInteger, Cast, Mul by both scales, Add of the bias."""
    weight = stored(reader.inputs[1])
    assert weight is not None
    widen(weight, write)
    minus = only_use(reader.outputs[0], "Sub")
    minus = minus if negated_bias(reader, minus) is not None else None
    like = (minus or reader).outputs[0]
    before = minus or reader
    shift = weight.inputs[2] if len(weight.inputs) > 2 else None
    if shift is not None:
        shift = write.constant(np.asarray(array(shift)).reshape(-1)[:1].reshape(()), name="zero")
    inputs = [made.codes, weight.inputs[0], made.zero, *([shift] if shift is not None else [])]
    whole = write.node(before, "MatMulInteger", inputs, like=like, dtype=ir.DataType.INT32)
    value = write.node(before, "Cast", (whole,), {"to": _FLOAT}, like=like)
    factor = write.constant(np.asarray(array(weight.inputs[1]), np.float32), name="scale")
    if len(made.scale.shape or ()):  # onnxruntime fuses a product of both scales as if it were one number
        value = write.node(
            before, "Mul", (write.node(before, "Mul", (value, made.scale), like=like), factor), like=like
        )
    else:
        scale = write.node(before, "Mul", (made.scale, factor))
        scale.dtype = ir.DataType.FLOAT
        value = write.node(before, "Mul", (value, scale), like=like)
    if minus is not None:
        bias = write.constant(-np.asarray(array(minus.inputs[1]), np.float32), name="bias")
        value = write.node(before, "Add", (value, bias), like=like)
    write.replace(like, value)
