"""Encoding and decoding of a stored tensor of a packed file: codes and shared fields, or float values.

It consists of the mask of the "masked" layout, codes and shared fields (bits: model/packed/bits.py), in C order of the
format's view of the tensor (model/graph/views.py). A static scale is a separate tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import FormatError
from espalier.model.formats.base import FAST, Encoded, Format, Shared
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.packed.bits import Bytes, cut_bits, join_bits, pack_bits, unpack_bits
from espalier.model.packed.layout import Packed, shared_bits
from espalier.model.store.weights import Tensor

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]
_CHUNK = 2**16  # elements; temporary arrays then fit the processor's cache


@dataclass(frozen=True, slots=True)
class Values:
    """Decoded values of a stored tensor. `source`: values that the format quantises to the `effective` ones.

    Both are the same for idempotent formats. `scale`: in the shape that ScaledFormat expects.
    """

    effective: Tensor
    source: Tensor
    mask: NDArray[np.bool_] | None = None
    scale: Array | None = None


@lru_cache(maxsize=1024)
def has_signed_codes(fmt: Format) -> bool:
    """Whether a format's codes are in two's complement."""
    return bool(fmt.encode(np.array([[-3e38, 1.0]], np.float32)).codes.min() < 0)


# -- encode


def pack(part: Packed, tensor: Tensor, mask: NDArray[np.bool_] | None, scale: Array | None) -> Bytes:
    """Encode the weight `tensor` as the stored tensor `part`, with a mask of its shape and a static scale.

    Raises FormatError for NaN.
    """
    if part.format == "mask":
        assert mask is not None
        return np.packbits(mask.reshape(-1), bitorder="little")
    fmt = part.use.format
    if fmt is None:
        return _pack_float(part, tensor, mask)
    values = _in_view(part, tensor, mask)
    if np.isnan(values).any():
        raise FormatError(
            f"{part.weight} contains NaN, which {fmt.label} cannot represent.",
            "Correct its values or leave it in float.",
        )
    encoded = _encode(fmt, values, scale)
    kept = _viewed(part, mask) if part.layout == "masked" and mask is not None else None
    codes = encoded.codes if kept is None else encoded.codes[kept]
    own = encoded.shared if scale is None else ()
    parts = [(pack_bits(codes, part.element_bits), codes.size * part.element_bits),
             *((pack_bits(s.values, s.bits), np.size(s.values) * s.bits) for s in own)]  # fmt: skip
    return _after_mask(kept, join_bits(parts))


def _pack_float(part: Packed, tensor: Tensor, mask: NDArray[np.bool_] | None) -> Bytes:
    if mask is None:
        return _raw(tensor.array)
    if part.layout == "masked":
        return _after_mask(mask, _raw(tensor.array[mask]))
    return _raw(np.where(mask, tensor.array, np.zeros((), tensor.array.dtype)))


def _raw(values: Array) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _after_mask(mask: NDArray[np.bool_] | None, values: Bytes) -> Bytes:
    return values if mask is None else np.concatenate([np.packbits(mask.reshape(-1), bitorder="little"), values])


def _encode(fmt: Format, x: Array, scale: Array | None) -> Encoded:
    """Encode in chunks of independent rows, as temporary arrays are many times larger than the tensor."""
    if scale is not None:
        return cast("ScaledFormat", fmt).encode_with(x, scale)
    fast = FAST.find((type(fmt), "cpu"))
    if fast and (encoded := fast.encode(fmt, x)) is not None:
        return encoded
    step = _rows(fmt, x.shape)
    if not x.ndim or step >= len(x):
        return fmt.encode(x)
    chunks = [fmt.encode(x[i : i + step]) for i in range(0, len(x), step)]
    kind = np.int32 if fmt.element_bits < 32 else np.int64
    shared = tuple(Shared(s[0].name, np.concatenate([f.values for f in s]), s[0].bits)
                   for s in zip(*(p.shared for p in chunks), strict=True))  # fmt: skip
    return Encoded(np.concatenate([p.codes.astype(kind) for p in chunks]), shared)


def _decode(fmt: Format, encoded: Encoded) -> Array:
    """The inverse of `_encode`, in the same chunks."""
    fast = FAST.find((type(fmt), "cpu"))
    if fast and (decoded := fast.decode(fmt, encoded)) is not None:
        return decoded
    codes, shared = encoded.codes, encoded.shared
    step = _rows(fmt, codes.shape)
    if not codes.ndim or step >= len(codes) or any(np.shape(s.values)[:1] != codes.shape[:1] for s in shared):
        return fmt.decode(Encoded(codes.astype(np.int64), shared))
    value = np.empty(codes.shape, np.float32)
    for i in range(0, len(codes), step):
        rows = slice(i, i + step)
        part = tuple(Shared(s.name, s.values[rows], s.bits) for s in shared)
        value[rows] = fmt.decode(Encoded(codes[rows].astype(np.int64), part))
    return value


@lru_cache(maxsize=1024)
def _rows(fmt: Format, shape: tuple[int, ...]) -> int:
    """The number of rows (first axis) per chunk; all rows if they have shared fields in common.

    They have none if the chunks together take no more bits than the tensor.
    """
    if not shape or not math.prod(shape):
        return 1
    step = -(-_CHUNK // (math.prod(shape[1:]) * 64)) * 64
    full, rest = divmod(shape[0], step)
    parts = [(step, *shape[1:])] * full + ([(rest, *shape[1:])] if rest else [])
    return step if sum(map(fmt.stored_bits, parts)) == fmt.stored_bits(shape) else shape[0]


def _in_view(part: Packed, tensor: Tensor, mask: NDArray[np.bool_] | None) -> Array:
    """The masked weight in the format's view, float32."""
    from espalier.model.torch.tensors import to_torch

    values = to_torch(tensor).float()
    viewed = values if part.use.view is None else part.use.view.of(values)
    kept = _viewed(part, mask) if mask is not None else None
    return viewed.numpy() if kept is None else viewed.numpy() * kept


def _viewed(part: Packed, mask: Array) -> Array:
    """A mask in the format's view."""
    import torch

    view = part.use.view
    return mask if view is None else view.of(torch.from_numpy(np.ascontiguousarray(mask))).numpy()


# -- decode


def unpack(part: Packed, data: Bytes, dtype: str, scale: Array | None = None) -> Values:
    """Decode the bytes of `part` to values of `dtype`. Raises ValueError if they do not match `part`."""
    if data.size != part.size:
        raise ValueError(f"{part.name} has the wrong size")
    kept, rest = None, data
    shape = part.shape if part.use.view is None else part.use.view.shape(part.shape)
    if part.layout == "masked":
        ends = -(-part.mask_bits // 8)
        kept = np.unpackbits(data[:ends], count=part.elements, bitorder="little").astype(np.bool_).reshape(shape)
        rest = data[ends:]
        if int(kept.sum()) != part.kept:
            raise ValueError(f"the mask of {part.name} has the wrong number of elements")
    fmt = part.use.format
    if fmt is not None:
        return _unpack_codes(part, fmt, rest, dtype, kept, shape, scale)
    values = _unpack_float(rest, dtype, kept, shape)
    return Values(values, values, kept)


def unpack_mask(part: Packed, data: Bytes) -> NDArray[np.bool_]:
    """Decode a stored mask. Raises ValueError if it has the wrong size."""
    if data.size != part.size:
        raise ValueError(f"{part.name} has the wrong size")
    return np.unpackbits(data, count=part.elements, bitorder="little").astype(np.bool_).reshape(part.shape)


def _unpack_float(data: Bytes, dtype: str, kept: Array | None, shape: tuple[int, ...]) -> Tensor:
    carrier = Tensor.carrier(dtype)
    values = data.copy().view(carrier)
    if kept is None:
        return Tensor(values.reshape(shape), dtype)
    full = np.zeros(shape, carrier)
    full[kept] = values
    return Tensor(full, dtype)


def _unpack_codes(
    part: Packed, fmt: Format, data: Bytes, dtype: str, kept: Array | None, shape: tuple[int, ...], scale: Array | None
) -> Values:
    count = part.elements if kept is None else part.kept
    codes = unpack_bits(data, part.element_bits, count, has_signed_codes(fmt))
    if kept is None:
        full = codes.reshape(shape)
    else:
        full = np.zeros(shape, codes.dtype)
        full[kept] = codes
    encoded = Encoded(full, _shared(fmt, data, count * part.element_bits, shape, scale))
    taken = fmt.stored_scale(encoded) if isinstance(fmt, ScaledFormat) else None
    mask = None if kept is None else _from_view(part, kept)
    effective = source = _cast(part, _decode(fmt, encoded), mask, dtype)
    # With a static scale integer formats are idempotent: no preimage is needed.
    if type(fmt).preimage is not Format.preimage and (scale is None or not isinstance(fmt, ScaledInteger)):
        wide = Encoded(full.astype(np.int64), encoded.shared)
        source = _cast(part, fmt.preimage(wide, dtype), mask, dtype)
    return Values(effective, source, mask, taken if scale is None else scale)


def _shared(fmt: Format, data: Bytes, start: int, shape: tuple[int, ...], scale: Array | None) -> tuple[Shared, ...]:
    """Decode the shared fields; their number and widths are those of an encoded zero tensor."""
    fields: list[Shared] = []
    if scale is not None:
        return _encode(fmt, np.zeros(shape, np.float32), scale).shared
    for name, like, bits in _fields(fmt, shape):
        codes = unpack_bits(cut_bits(data, start, like.size * bits), bits, like.size)
        fields.append(Shared(name, codes.astype(like.dtype).reshape(like.shape), bits))
        start += like.size * bits
    return tuple(fields)


@lru_cache(maxsize=32)
def _fields(fmt: Format, shape: tuple[int, ...]) -> tuple[tuple[str, Array, int], ...]:
    """(name, array of zeros, bits) of the shared fields in a tensor of `shape`."""
    if not shared_bits(fmt, None, shape) and math.prod(shape):  # empty tensors have fields without values
        return ()
    shared = _encode(fmt, np.zeros(shape, np.float32), None).shared
    return tuple((s.name, np.zeros_like(s.values), s.bits) for s in shared)


def _from_view(part: Packed, values: Array) -> Array:
    """Values in the format's view → the weight's shape."""
    import torch

    view = part.use.view
    return values if view is None else view.back(torch.from_numpy(values), part.shape).contiguous().numpy()


def _cast(part: Packed, viewed: Array, mask: Array | None, dtype: str) -> Tensor:
    """float32 values in the format's view → the weight's shape and dtype, 0 where masked."""
    import torch

    from espalier.model.torch.tensors import to_numpy

    # Not by ascontiguousarray, which gives a number an axis.
    own: Array = _from_view(part, np.asarray(viewed, np.float32, order="C"))
    values: torch.Tensor = torch.from_numpy(np.asarray(own if mask is None else np.where(mask, own, 0), order="C"))
    true = getattr(torch, dtype)
    largest = torch.finfo(true).max
    return to_numpy(values if true == torch.float32 else values.clamp(-largest, largest).to(true))


def same_values(part: Packed, tensor: Tensor, mask: Array | None, scale: Array | None, expected: Tensor) -> bool:
    """Whether the effective values of the weight `tensor` in a built module are `expected`; 0 and −0 are equal."""
    import torch

    from espalier.model.torch.layers import Effective
    from espalier.model.torch.tensors import to_torch

    kept, static_scale = (None if a is None else torch.from_numpy(np.array(a)) for a in (mask, scale))
    with torch.no_grad():
        value = Effective(part.use.format, kept, part.use.view, static_scale)(to_torch(tensor))
    want = to_torch(expected)
    return value.dtype == want.dtype and torch.equal(value, want)
