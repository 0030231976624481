"""Fast codes, equal to those of `Format.encode` and `decode`: formats whose codes are integers, in whole blocks of
finite float32 numbers. Where none of this holds, None, and the definition runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from espalier.kernels.fake_quant.loops import codes
from espalier.kernels.fake_quant.plan import plan_of
from espalier.model.formats.base import Array, Encoded, Shared
from espalier.model.formats.block_fp import BlockFP
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled import ROW, TENSOR
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import scale_pattern

_ZERO = -1023  # the definition's exponent of 0


def encoded(fmt: Any, x: Array) -> Encoded | None:
    """`fmt.encode(x)`, with codes in the smallest integer dtype; None if only the definition can do it."""
    if x.dtype != np.float32 or not x.size or not x.ndim:
        return None
    x = np.ascontiguousarray(x)
    if isinstance(fmt, MXInt | BlockFP):
        return _blocks(fmt, x)
    return _integers(fmt, x) if isinstance(fmt, ScaledInteger) and fmt.symmetric else None


def decoded(fmt: Any, encoding: Encoded) -> Array | None:
    """`fmt.decode(encoding)`; None if only the definition can do it."""
    if not isinstance(fmt, MXInt | BlockFP) or not np.size(encoding.codes) or not _is_supported(fmt, encoding.codes):
        return None
    e = np.asarray(fmt.scale_exponent(encoding.shared[0].values)).reshape(-1) + (2 - fmt.width)
    if e.min() < -149 or e.max() > 127 - fmt.width:
        return None
    value = np.empty(encoding.codes.shape, np.float32)
    downs = np.ldexp(np.float32(1), e).astype(np.float32)
    flat = np.ascontiguousarray(encoding.codes).reshape(-1)
    codes.fixed_values(flat, value.reshape(-1), downs, np.int64(fmt.block), _sign(fmt))
    return value


def _kind(bits: int) -> np.dtype[np.signedinteger]:
    return np.dtype(np.int8 if bits < 8 else np.int16 if bits < 16 else np.int32)


def _sign(fmt: Any) -> np.int32:
    return np.int32(0 if isinstance(fmt, MXInt) else 1 << (fmt.width - 1))


def _is_supported(fmt: Any, x: Array) -> bool:
    return fmt.rows == 1 and fmt.width <= 16 and np.ndim(x) > 0 and x.shape[-1] % fmt.block == 0


@lru_cache(maxsize=256)
def _fields(fmt: Any) -> Array:
    """The stored field of each entry of the plan's table."""
    return np.asarray(fmt.field_of(np.array([_ZERO, _ZERO, *range(-126, 128)])))


def _blocks(fmt: Any, x: Array) -> Encoded | None:
    plan = plan_of(fmt, torch.float32)
    if plan is None or not _is_supported(fmt, x):
        return None
    sign = _sign(fmt)
    encoded_values = np.empty(x.shape, _kind(fmt.width if sign else fmt.width - 1))
    entries = np.empty(x.size // fmt.block, np.uint32)
    infinity, top = plan.constants[:2]
    flat, into = x.reshape(-1), encoded_values.reshape(-1)
    if codes.fixed_codes(flat, into, entries, np.int64(fmt.block), plan.table, infinity, top, sign) < 0:
        return None
    stored = _fields(fmt)[entries].reshape(fmt.blocks.counts(x.shape))
    bits = next(f.bits for f in fmt.layout() if f.kind == "shared")
    return Encoded(encoded_values, (Shared("scale", stored, bits),))


def _integers(fmt: Any, x: Array) -> Encoded | None:
    block = {TENSOR: x.size, ROW: x.shape[-1]}.get(fmt.per, fmt.per)
    plan = plan_of(fmt, torch.float32)
    if plan is None or x.shape[-1] % min(block, x.shape[-1]) or (fmt.per > 0 and x.shape[-1] % block):
        return None
    infinity, top, _, kind = plan.constants
    encoded_values, scales = np.empty(x.shape, _kind(fmt.width - 1)), np.empty(x.size // block, np.float32)
    if codes.integer_codes(x.reshape(-1), encoded_values.reshape(-1), scales, np.int64(block), infinity, top, kind) < 0:
        return None
    return Encoded(encoded_values, (scale_pattern("scale", scales.reshape(fmt.scale_shape(x.shape)), fmt.scale_dtype),))
