"""Layers between quantised ends: integer weights of 8 bits, and biases as int32 in steps of both scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.values import (
    Array,
    Grid,
    Writer,
    activation,
    array,
    only_use,
    operand,
    producer,
    read_as,
    stored,
)

EIGHT = (ir.DataType.INT8, ir.DataType.UINT8)
NARROW = {ir.DataType.INT4: ir.DataType.INT8, ir.DataType.UINT4: ir.DataType.UINT8}
LAYERS = ("Conv", "MatMul", "Gemm")


@dataclass(frozen=True, slots=True)
class Layer:
    """A product of a quantised activation and stored integers. `minus`: the Sub of its negated bias."""

    node: ir.Node
    grid: Grid
    weight: ir.Node
    minus: ir.Node | None

    @property
    def result(self) -> ir.Value:
        """What the next operation reads."""
        return (self.minus or self.node).outputs[0]

    @property
    def output(self) -> Grid | None:
        """The grid to which the result is rounded."""
        return read_as(self.result)


def layer(node: ir.Node) -> Layer | None:
    """The layer that a product is; None where an input is in float, or not of 8 bits at most."""
    if node.op_type not in LAYERS or node.domain or len(node.inputs) < 2:
        return None
    grid, weight = activation(node.inputs[0]), stored(node.inputs[1])
    if grid is None or weight is None or grid.dtype not in EIGHT or not simple(weight):
        return None
    minus = only_use(node.outputs[0], "Sub")
    minus = minus if minus and minus.inputs[0] is node.outputs[0] and array(minus.inputs[1]) is not None else None
    return Layer(node, grid, weight, minus)


def simple(weight: ir.Node) -> bool:
    """Whether stored integers have at most 8 bits, one scale or one for each channel, and one zero point."""
    held, zero = weight.inputs[0], array(weight.inputs[2] if len(weight.inputs) > 2 else None)
    kind = None if held is None else held.dtype
    block = weight.attributes.get_int("block_size", 0)
    return (
        (kind in EIGHT or kind in NARROW) and not block and (zero is None or len(set(zero.reshape(-1).tolist())) == 1)
    )


def computes_in_integers(value: ir.Value, *, exact: bool) -> bool:
    """Whether a value comes out of a layer that an integer operator computes, once its result is rounded."""
    node = producer(value, *LAYERS, "Sub")
    if node is not None and node.op_type == "Sub":
        node = producer(node.inputs[0], *LAYERS)
    found = None if node is None else layer(node)
    if found is None or found.result is not value:
        return False
    if found.minus is None:
        return True
    bias = _bias(found)
    codes, scale = bias_codes(bias, found)
    return _takes_bias(found) and not (exact and (codes * scale.astype(np.float64) != bias).any())


def _bias(found: Layer) -> Array:
    assert found.minus is not None
    return -np.asarray(array(found.minus.inputs[1]), np.float32).reshape(-1)


def integer_layers(graph: ir.Graph, write: Writer, *, exact: bool) -> tuple[set[ir.Node], float]:
    """Give layers what a runtime needs to compute them in integers; returns these, and the largest change of a bias."""
    changed, fused = 0.0, set[ir.Node]()
    for node in list(graph):
        found = layer(node)
        if found is None:
            continue
        output = found.output
        ends = output is not None and output.dtype in EIGHT
        if node.op_type == "MatMul" or (ends and found.minus is None):
            widen(found.weight, write)
            fused.add(node)
        if not ends or found.minus is None:
            continue
        bias = _bias(found)
        codes, scale = bias_codes(bias, found)
        apart = float(np.abs(codes * scale.astype(np.float64) - bias).max(initial=0.0))
        if not _takes_bias(found) or (exact and apart):
            continue
        changed = max(changed, apart)
        widen(found.weight, write)
        fused.add(_with_bias(found, codes, scale, write))
    return fused, changed


def _takes_bias(found: Layer) -> bool:
    """Whether the runtime's integer operator adds a bias: convolutions, and products of matrices."""
    shape = found.node.inputs[0].shape if found.node.inputs[0] else None
    return found.node.op_type == "Conv" or (found.node.op_type == "MatMul" and shape is not None and len(shape) == 2)


def bias_codes(bias: Array, found: Layer) -> tuple[Array, Array]:
    """(int32 codes, scales) of a bias in steps of input scale × weight scale."""
    scale = np.float32(found.grid.scale) * np.asarray(array(found.weight.inputs[1]), np.float32).reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.nan_to_num(np.rint(bias.astype(np.float64) / scale), posinf=0, neginf=0)
    return np.clip(codes, -(2**31) + 1, 2**31 - 1).astype(np.int32), scale


def _with_bias(found: Layer, codes: Array, scale: Array, write: Writer) -> ir.Node:
    node, minus = found.node, found.minus
    assert minus is not None
    many = scale.size > 1
    inputs = [write.constant(codes, name="bias"), write.constant(scale if many else scale.reshape(()), name="scale")]
    bias = write.node(node, "DequantizeLinear", inputs, {"axis": 0} if many else {}, like=None)
    bias.shape, bias.dtype = ir.Shape(codes.shape), ir.DataType.FLOAT
    given = dict(node.attributes) if node.op_type == "Conv" else {}
    kind = "Gemm" if node.op_type == "MatMul" else node.op_type
    if kind == "Gemm" and len(found.weight.inputs) < 3:  # without one, no integer operator comes out
        kind_ = operand(found.weight).dtype
        zero = np.zeros(scale.shape if many else (), np.uint8 if kind_ is ir.DataType.UINT8 else np.int8)
        found.weight.resize_inputs(3)
        found.weight.replace_input_with(2, write.constant(zero, name="zero"))
    made = write.node(minus, kind, (node.inputs[0], node.inputs[1], bias), given, like=minus.outputs[0])
    write.replace(minus.outputs[0], made)
    home = made.producer()
    assert home is not None
    return home


def widen(weight: ir.Node, write: Writer) -> None:
    """Codes of 4 bits in 8, as the integer operators of layers take them."""
    for i in (0, 2):
        value = weight.inputs[i] if i < len(weight.inputs) else None
        wide = NARROW.get(value.dtype) if value is not None and value.dtype is not None else None
        if value is not None and wide is not None:
            codes = np.asarray(array(value)).astype(wide.numpy())
            weight.replace_input_with(i, write.constant(codes, name=value.name or "codes"))
