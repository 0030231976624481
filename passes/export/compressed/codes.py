"""The tensors that compressed-tensors reads for a weight: the codes and scales of its format, laid as it lays them.

What they decompress to by its own code is compared with the weight; nothing is rounded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import ExportError
from espalier.model.formats.base import Encoded, Format
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, broadcast_scale
from espalier.model.formats.scaled_element import ScaledElement
from espalier.passes.export.targets.compressed_tensors import Args, Scheme
from espalier.passes.export.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
NEAR = 8  # neighbours of the reciprocal that are tried


def tensors_of(fmt: Format, seen: Array, scale: Array | None, scheme: Scheme, effective: Tensor) -> dict[str, Tensor]:
    """Name after the module's → tensor, for a masked float32 weight [rows, columns] and its given scale.

    `effective`: the weight as it takes part in the arithmetic. Raises ExportError where compressed-tensors would make
    another weight of them.
    """
    encoded = cast("ScaledFormat", fmt).encode_with(seen, scale) if scale is not None else fmt.encode(seen)
    if scheme.weights.type == "float":
        candidates = _floats(fmt, encoded, scheme, effective)
    else:
        candidates = [_integers(fmt, encoded, scheme, effective)]
    for tensors in candidates:
        if _same(decompressed(tensors, scheme), effective):
            return tensors
    raise ExportError(
        f"{fmt.label} does not decompress to the same weight in {str(effective.dtype).removeprefix('torch.')}.",
        "Choose a scale in the weight's own type, or leave it in float.",
    )


def decompressed(tensors: dict[str, Tensor], scheme: Scheme) -> Tensor:
    """The weight that compressed-tensors computes from them."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    reader: Any = BaseCompressor.get_value_from_registry(scheme.format)
    return reader.decompress(tensors, QuantizationScheme.model_validate(scheme.to_json([])))["weight"]


def _same(value: Tensor, effective: Tensor) -> bool:
    import torch

    return value.dtype == effective.dtype and torch.equal(value, effective)


# -- integers


def _integers(fmt: Format, encoded: Encoded, scheme: Scheme, effective: Tensor) -> dict[str, Tensor]:
    import torch
    from compressed_tensors.compressors.pack_quantized import pack_to_int32

    codes, scale, zero = whole_numbers(fmt, encoded)
    args = scheme.weights
    if zero is not None and args.symmetric:
        codes, zero = codes - broadcast_scale(zero, _per(args), codes.shape), None
    whole = torch.from_numpy(codes.astype(np.int8))
    tensors = {"weight_scale": torch.from_numpy(np.array(_shaped(scale, args, codes.shape))).to(effective.dtype)}
    if zero is not None:
        zeros = torch.from_numpy(np.array(_shaped(zero, args, codes.shape)).astype(np.int8))
        packs = scheme.format == "pack-quantized" and args.strategy in ("group", "channel")
        tensors["weight_zero_point"] = (
            pack_to_int32(zeros, args.num_bits, packed_dim=0).contiguous() if packs else zeros
        )
    if scheme.format == "int-quantized":
        return {"weight": whole, **tensors}
    return {"weight_packed": pack_to_int32(whole, args.num_bits), "weight_shape": torch.tensor(codes.shape), **tensors}


def _per(args: Args) -> int:
    return args.group_size or (TENSOR if args.strategy == "tensor" else ROW)


def _shaped(scale: Array, args: Args, shape: tuple[int, ...]) -> Array:
    """Scales [1] for a tensor, [rows, 1] for channels, [rows, groups]."""
    return np.asarray(scale).reshape((1,) if args.strategy == "tensor" else (shape[0], -1))


# -- floats


def _floats(fmt: Format, encoded: Encoded, scheme: Scheme, effective: Tensor) -> list[dict[str, Tensor]]:
    import torch

    codes = torch.from_numpy(encoded.codes.astype(np.uint8))
    match fmt:
        case ScaledElement():
            scale = np.array(_shaped(fmt.stored_scale(encoded), scheme.weights, encoded.codes.shape))
            return [{"weight": codes.view(torch.float8_e4m3fn),
                     "weight_scale": torch.from_numpy(scale).to(effective.dtype)}]  # fmt: skip
        case MinifloatIEEE():
            scale = torch.tensor([2.0 ** (7 - fmt.bias)], dtype=effective.dtype)
            return [{"weight": codes.view(torch.float8_e4m3fn), "weight_scale": scale}]
        case _:
            pass
    scales = torch.from_numpy(encoded.shared[0].values.astype(np.uint8))
    if scheme.weights.num_bits == 8:
        return [{"weight": codes.view(torch.float8_e4m3fn), "weight_scale": scales}]
    packed = {"weight_packed": (codes[:, 0::2] | codes[:, 1::2] << 4).contiguous()}
    if scheme.weights.strategy == "group":
        return [packed | {"weight_scale": scales}]
    packed["weight_scale"] = scales.view(torch.float8_e4m3fn)
    pattern = encoded.shared[1].values.astype(np.uint32).view(np.float32)
    return [packed | {"weight_global_scale": torch.from_numpy(g)} for g in _reciprocals(pattern)]


def _reciprocals(scale: Array) -> list[Array]:
    """Float32 numbers next to 1/s, from the nearest: readers divide by one, where the format multiplies by s."""
    nearest = (np.float32(1) / scale).astype(np.float32)
    bits = nearest.view(np.int32)
    steps = sorted(range(-NEAR, NEAR + 1), key=abs)
    return [np.array(bits + step, np.int32).view(np.float32) for step in steps]
