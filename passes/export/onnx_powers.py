"""Operators that torch's exporter lacks; above all powers of two, exact by a table, since ONNX can neither take a
float apart nor make one of its bits. The exponent is guessed by a logarithm, then put right by its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import torch
from onnxscript import opset18

op: Any = opset18  # its own types are those of ONNX, not of what is being built
LOW, HIGH = -127, 128
_POWERS = np.ldexp(1.0, np.arange(LOW, HIGH)).astype(np.float32)  # the last: 2^127


def _power(exponent: Any) -> Any:
    """2^exponent for −127 … 127, clipped."""
    at = op.Clip(op.Sub(exponent, _int(LOW)), _int(0), _int(HIGH - LOW - 1))
    return op.Gather(op.Constant(value=onnx_ir.tensor(_POWERS)), at)


def frexp(x: Any) -> Any:
    """aten.frexp of float32: mantissa in ½ … 1 and exponent; of 0 both are 0."""
    size = op.Abs(x)
    small = op.Less(size, _float(2.0**-90))
    raised = op.Where(small, op.Mul(size, _float(2.0**60)), size)
    guess = op.Cast(op.Floor(op.Mul(op.Log(raised), _float(1 / np.log(2)))), to=6)
    guess = op.Clip(guess, _int(LOW + 1), _int(HIGH - 1))
    low = op.Cast(op.Less(raised, _power(guess)), to=6)
    above = op.Cast(op.GreaterOrEqual(op.Mul(raised, _float(0.5)), _power(guess)), to=6)
    exponent = op.Add(op.Sub(guess, low), above)
    mantissa = op.Div(op.Mul(raised, _float(0.5)), _power(exponent))
    shift = op.Where(small, _int(60), _int(0))
    zero = op.Equal(size, _float(0.0))
    found = op.Where(zero, _int(0), op.Sub(op.Add(exponent, _int(1)), shift))
    signed = op.Where(op.Less(x, _float(0.0)), op.Neg(mantissa), mantissa)
    return op.Where(zero, _float(0.0), signed), found


def from_bits(x: Any, dtype: int) -> Any:
    """aten.view.dtype, of whole numbers that hold nothing but a float32's exponent."""
    return _power(op.Sub(op.Div(x, _int(1 << 23)), _int(127)))


def signbit(x: Any) -> Any:
    """prims.signbit, but for −0."""
    return op.Less(x, _float(0.0))


def stable_sort(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """aten.sort.stable of an axis from 0: of equal values TopK gives that of the lower index first."""
    count = op.Shape(x, start=dim, end=dim + 1)
    return op.TopK(x, count, axis=dim, largest=int(descending), sorted=1)


def _float(value: float) -> Any:
    return op.Constant(value=onnx_ir.tensor(np.array(value, np.float32)))


def _int(value: int) -> Any:
    return op.Constant(value=onnx_ir.tensor(np.array(value, np.int32)))


TRANSLATIONS: dict[Any, Any] = {
    torch.ops.aten.frexp.Tensor: frexp,
    torch.ops.aten.view.dtype: from_bits,
    torch.ops.prims.signbit.default: signbit,
    torch.ops.aten.sort.stable: stable_sort,
}
