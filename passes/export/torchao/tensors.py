"""The tensors of torchao (0.18) for a weight: the codes and scales of its format, laid as torchao lays them.

What each dequantises to by torchao's own code is compared with the weight; nothing is rounded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from espalier.model.errors import ExportError
from espalier.model.formats.base import Array, Encoded, Format
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.sources.torchao import package
from espalier.passes.export.targets.torchao import FLOAT8, INT8, NV, Inputs, Scheme
from espalier.passes.export.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

BIASES = {"e4m3": 7, "e5m2": 15}  # of torch's small floats


def tensor_of(fmt: Format, seen: Array, scale: Array | None, scheme: Scheme, effective: Tensor) -> Tensor:
    """The tensor of torchao for a masked float32 weight [rows, columns] and its given scale.

    `effective`: the weight as it takes part in the arithmetic. Raises ExportError where torchao would make another
    weight of it.
    """
    import torch

    encoded = cast("ScaledFormat", fmt).encode_with(seen, scale) if scale is not None else fmt.encode(seen)
    make = {FLOAT8: _small_floats, NV: _nvfp4}.get(scheme.tensor, _integers)
    made: Any = make(fmt, encoded, scheme, effective.dtype)
    value = made.dequantize()
    if value.dtype == effective.dtype and torch.equal(value, effective):
        return made
    raise ExportError(
        f"{fmt.label} does not dequantise to the same weight in {str(effective.dtype).removeprefix('torch.')}.",
        "Choose another format, or leave it in float.",
    )


def _scales(scale: Array, scheme: Scheme, shape: tuple[int, ...]) -> Tensor:
    """Scales or zero points [rows, groups], [rows, 1] or [1, 1]."""
    import torch

    block = scheme.block(shape)
    return torch.from_numpy(np.array(scale)).reshape(shape[0] // block[0], shape[1] // block[1])


def _integers(fmt: Format, encoded: Encoded, scheme: Scheme, dtype: Any) -> Any:
    import torch

    ao = package("quantization")
    codes, scale, zero = whole_numbers(fmt, encoded)
    whole = torch.from_numpy(codes.astype(np.int8))
    scales, block = _scales(np.asarray(scale, np.float32), scheme, codes.shape), scheme.block(codes.shape)
    if scheme.tensor == INT8:
        return ao.Int8Tensor(whole, scales, block, dtype, act_quant_kwargs=rounded_inputs(scheme.inputs))
    zeros = torch.zeros_like(scales) if zero is None else _scales(zero, scheme, codes.shape)
    rounding = "int8_asym_per_token" if scheme.inputs else None
    target = getattr(torch, f"int{scheme.bits}")
    return ao.IntxUnpackedToInt8Tensor(whole, scales, zeros.to(torch.int8), target, block, dtype, rounding)


def rounded_inputs(inputs: Inputs | None) -> Any:
    """How an Int8Tensor rounds the other operand of its products; None for float."""
    if inputs is None:
        return None
    ao = package("quantization")
    mapping = ao.MappingType.SYMMETRIC if inputs.symmetric else ao.MappingType.ASYMMETRIC
    granularity = ao.PerTensor() if inputs.granularity == "tensor" else ao.PerRow()
    return package("quantization.quantize_.workflows").QuantizeTensorToInt8Kwargs(
        granularity=granularity, mapping_type=mapping
    )


def small_float(element: str) -> Any:
    """The type of torch of `e4m3` or `e5m2`."""
    import torch

    return torch.float8_e4m3fn if element == "e4m3" else torch.float8_e5m2


def _small_floats(fmt: Format, encoded: Encoded, scheme: Scheme, dtype: Any) -> Any:
    import torch

    match fmt:
        case MinifloatIEEE():
            scale: Any = np.float32(2.0) ** (BIASES[scheme.element] - fmt.bias)
        case PowerBlocks():
            scale = np.ldexp(np.float32(1), fmt.scale_exponent(encoded.shared[0].values).astype(np.int64))
        case _:
            scale = cast("ScaledFormat", fmt).stored_scale(encoded)
    codes = torch.from_numpy(encoded.codes.astype(np.uint8)).view(small_float(scheme.element))
    shape = encoded.codes.shape
    scales = _scales(np.asarray(scale, np.float32), scheme, shape)
    return package("quantization").Float8Tensor(codes, scales, block_size=scheme.block(shape), dtype=dtype)


def _nvfp4(fmt: Format, encoded: Encoded, scheme: Scheme, dtype: Any) -> Any:
    """Two codes in a byte, the first of them in the lower half."""
    import torch

    codes = torch.from_numpy(encoded.codes.astype(np.uint8))
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).contiguous()
    scales, whole = (s.values for s in encoded.shared)
    blocks = _scales(scales.astype(np.uint8), scheme, encoded.codes.shape).view(torch.float8_e4m3fn)
    pattern = torch.from_numpy(whole.astype(np.uint32).view(np.float32))
    return package("prototype.mx_formats.nvfp4_tensor").NVFP4Tensor(
        packed, blocks, scheme.group, dtype, per_tensor_scale=pattern.reshape(())
    )
