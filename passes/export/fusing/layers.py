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
    negated_bias,
    only_use,
    operand,
    producer,
    read_as,
    stored,
)

EIGHT = (ir.DataType.INT8, ir.DataType.UINT8)
NARROW = {ir.DataType.INT4: ir.DataType.INT8, ir.DataType.UINT4: ir.DataType.UINT8}
LAYERS = ("Conv", "MatMul", "Gemm")
DEAD_STEPS = 1 << 20  # of the bias of a channel without weights


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
    return Layer(node, grid, weight, minus if negated_bias(node, minus) is not None else None)


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
    held = bias_codes(_bias(found), found)
    return _takes_bias(found) and held is not None and not (exact and held.change)


def _bias(found: Layer) -> Array:
    minus = negated_bias(found.node, found.minus)
    assert minus is not None
    return -minus


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
        held = bias_codes(_bias(found), found)
        if not _takes_bias(found) or held is None or (exact and held.change):
            continue
        changed = max(changed, held.change)
        widen(found.weight, write)
        fused.add(_with_bias(found, held, write))
    return fused, changed


def _takes_bias(found: Layer) -> bool:
    """Whether the runtime's integer operator adds a bias: convolutions, and products of matrices."""
    shape = found.node.inputs[0].shape if found.node.inputs[0] else None
    return found.node.op_type == "Conv" or (found.node.op_type == "MatMul" and shape is not None and len(shape) == 2)


@dataclass(frozen=True, slots=True)
class HeldBias:
    """A bias as int32 `codes` in steps of `scale`, input scale × weight scale. `change`: the largest by rounding."""

    codes: Array
    scale: Array
    weight_scale: Array
    change: float


def bias_codes(bias: Array, found: Layer) -> HeldBias | None:
    """The bias in int32; None where that does not hold it within half a step.

    A channel whose weights are all 0 is the same at any scale: it takes one by which its bias has many steps.
    """
    given = np.asarray(array(found.weight.inputs[1]), np.float32).reshape(-1)
    step = np.float32(found.grid.scale)
    with np.errstate(all="ignore"):
        better = (np.abs(bias) / np.float32(DEAD_STEPS) / step).astype(np.float32)
        weight = np.where(_dead(found) & (bias != 0), better, given) if given.size == bias.size else given
        scale = step * weight
        exact = np.rint(bias.astype(np.float64) / scale)
        exact = np.where(bias == 0, 0.0, exact)
        change = np.abs(exact * scale.astype(np.float64) - bias)
        held = np.isfinite(exact) & (np.abs(exact) < 2**31) & (change <= scale)
    if not held.all():
        return None
    return HeldBias(exact.astype(np.int32), scale, weight, float(change.max(initial=0.0)))


def _dead(found: Layer) -> Array:
    """Channels whose weights are all 0, [channels] or [1]."""
    codes, zero = array(found.weight.inputs[0]), array(found.weight.inputs[2] if len(found.weight.inputs) > 2 else None)
    assert codes is not None
    level = 0 if zero is None else int(np.asarray(zero).reshape(-1)[0])
    axis = 0 if found.node.op_type == "Conv" else codes.ndim - 1
    return (codes.astype(np.int64) == level).all(tuple(i for i in range(codes.ndim) if i != axis))


def _with_bias(found: Layer, held: HeldBias, write: Writer) -> ir.Node:
    node, minus, codes, scale = found.node, found.minus, held.codes, held.scale
    assert minus is not None
    before = array(found.weight.inputs[1])
    assert before is not None
    if (held.weight_scale != np.asarray(before, np.float32).reshape(-1)).any():
        new = held.weight_scale.reshape(before.shape)
        found.weight.replace_input_with(1, write.constant(new, name="scale"))
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
