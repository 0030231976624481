"""Translations to ONNX for mixtures of experts: products with a matrix for each group of rows, and counts of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import torch
from onnxscript import opset18

op: Any = opset18  # its own types are those of ONNX, not of what is being built


def grouped_product(x: Any, weight: Any, ends: Any) -> Any:
    """transformers' grouped_mm_fallback: x [rows, in], weight [groups, in, out], ends [groups] → [rows, out].

    The rows up to each end, from the end before, are multiplied by the matrix of their group; rows after the last end
    are 0.
    """
    ends, zero, axis = op.Cast(ends, to=7), _whole([0]), _whole([0])
    pieces: list[Any] = []
    begin = zero
    for group in range(int(weight.shape[0])):
        end = op.Slice(ends, _whole([group]), _whole([group + 1]), axis)
        matrix = op.Gather(weight, _whole(group), axis=0)
        pieces.append(op.MatMul(op.Slice(x, begin, end, axis), matrix))
        begin = end
    rest = op.Concat(op.Sub(op.Shape(x, start=0, end=1), begin), op.Shape(weight, start=2, end=3), axis=0)
    return op.Concat(*pieces, op.CastLike(op.ConstantOfShape(rest), x), axis=0)


def histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """aten.histc: bins of equal widths, the last with its upper end; other values do not count.

    Equal ends stand for the least and the largest value; one apart on each side where these are equal too.
    """
    flat = op.Reshape(op.Cast(x, to=1), _whole([-1]))
    if min == max:
        low, high = op.ReduceMin(flat, keepdims=0), op.ReduceMax(flat, keepdims=0)
        alike = op.Cast(op.Equal(low, high), to=1)
        low, high = op.Sub(low, alike), op.Add(high, alike)
    else:
        low, high = _number(min), _number(max)
    at = op.Floor(op.Div(op.Mul(op.Sub(flat, low), _number(bins)), op.Sub(high, low)))
    at = op.Where(op.Equal(flat, high), _number(bins - 1), at)
    every = op.Constant(value=onnx_ir.tensor(np.arange(bins, dtype=np.float32)))
    same = op.Cast(op.Equal(op.Unsqueeze(at, _whole([1])), every), to=1)
    return op.CastLike(op.ReduceSum(same, _whole([0]), keepdims=0), x)


def _whole(value: Any) -> Any:
    return op.Constant(value=onnx_ir.tensor(np.array(value, np.int64)))


def _number(value: float) -> Any:
    return op.Constant(value=onnx_ir.tensor(np.array(value, np.float32)))


def translations() -> dict[Any, Any]:
    """Operator → function; those that transformers has registered."""
    found: dict[Any, Any] = {torch.ops.aten.histc.default: histogram}
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found[torch.ops.transformers.grouped_mm_fallback.default] = grouped_product
    return found
