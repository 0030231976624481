"""Dequantisation of MX weights: integer codes times a power of two per block, in one pass.

MXINT8: y = m/64·2^(s − 127), m with a sign, an integer bit and six fraction bits, s one byte per 32 elements.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_block
from espalier.kernels.bench.jit import jit, next_power_of_2, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned
from espalier.model.formats.mxint import MXInt
from espalier.model.torch.mx_weights import MXWeight, packed, plain

BLOCK = 32


@jit
def _power(e):
    """2^(e − 127) of a stored exponent, from its bits."""
    e = e.to(tl.int32)
    return tl.where(e == 0, 0x00400000, e << 23).to(tl.float32, bitcast=True)


@jit
def _place(rows, columns, groups, BLOCK: tl.constexpr, WIDTH: tl.constexpr, COUNT: tl.constexpr, WHOLE: tl.constexpr):
    """Number, row and first column of each block of a program, its columns, and their mask."""
    group = (tl.program_id(0) * COUNT + tl.arange(0, COUNT)[:, None]).to(tl.int64)
    inner = tl.arange(0, WIDTH)[None, :]
    in_range = group < rows * groups
    if WHOLE:
        return group, group * BLOCK, inner, in_range & (inner < BLOCK)
    else:
        row, start = group // groups, (group % groups) * BLOCK
        return group, row * columns + start, inner, in_range & (inner < BLOCK) & (start + inner < columns)


@jit
def _values8(
    codes, exponents, out, rows, columns, groups, largest,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, COUNT: tl.constexpr, WHOLE: tl.constexpr, CLIP: tl.constexpr,
):  # fmt: skip
    """code·2^−6·2^(e − 127)."""
    group, first, inner, valid = _place(rows, columns, groups, BLOCK, WIDTH, COUNT, WHOLE)
    code = tl.load(codes + first + inner, mask=valid, other=0).to(tl.float32)
    e = tl.load(exponents + group, mask=group < rows * groups, other=127)
    value = code * 0.015625 * _power(e)
    if CLIP:
        value = tl.minimum(tl.maximum(value, -largest), largest)
    tl.store(out + first + inner, value.to(out.dtype.element_ty), mask=valid)


@jit
def _bits8(
    codes, exponents, out, rows, columns, groups,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, COUNT: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The assembled bfloat16: sign, exponent, six fraction bits; if the integer bit is 0, the implicit one
    is subtracted (`bias`)."""
    group, first, inner, valid = _place(rows, columns, groups, BLOCK, WIDTH, COUNT, WHOLE)
    code = tl.load(codes + first + inner, mask=valid, other=0).to(tl.int32)
    e = tl.load(exponents + group, mask=group < rows * groups, other=127).to(tl.int32)
    size = tl.abs(code)
    head = (e << 7) | tl.where(code < 0, 0x8000, 0)
    y = ((head | ((size & 63) << 1)) << 16).to(tl.float32, bitcast=True)
    bias = (head << 16).to(tl.float32, bitcast=True)
    dont_need_abs = (size & 64) != 0
    tl.store(out + first + inner, tl.where(dont_need_abs, y, y - bias).to(out.dtype.element_ty), mask=valid)


@jit
def _values4(
    codes, exponents, out, rows, columns, groups, across, largest,
    BLOCK: tl.constexpr, HALF: tl.constexpr, COUNT: tl.constexpr, WHOLE: tl.constexpr, CLIP: tl.constexpr,
):  # fmt: skip
    """code·2^−2·2^(e − 127), two codes per byte; block sizes are powers of two."""
    group = (tl.program_id(0) * COUNT + tl.arange(0, COUNT)[:, None]).to(tl.int64)
    in_range = group < rows * groups
    row, start = group // groups, (group % groups) * BLOCK
    half = tl.arange(0, HALF)[None, :]
    there = in_range if WHOLE else in_range & (start + 2 * half < columns)
    byte = tl.load(codes + row * across + start // 2 + half, mask=there, other=0).to(tl.int32)
    scale = _power(tl.load(exponents + group, mask=in_range, other=127)) * 0.25
    low, high = ((byte << 28) >> 28).to(tl.float32) * scale, ((byte << 24) >> 28).to(tl.float32) * scale
    value = tl.interleave(low, high)
    if CLIP:
        value = tl.minimum(tl.maximum(value, -largest), largest)
    inner = tl.arange(0, 2 * HALF)[None, :]
    valid = in_range & (inner < BLOCK) if WHOLE else in_range & (start + inner < columns)
    tl.store(out + row * columns + start + inner, value.to(out.dtype.element_ty), mask=valid)


CONFIGS: list[Config] = [
    {"count": c, "num_warps": w} for c, w in ((64, 4), (128, 4), (128, 8), (256, 8), (32, 2), (32, 4), (64, 2))
]


def by_triton(weight: MXWeight, dtype: torch.dtype, trick: bool = False) -> Tensor:
    """The values by Triton."""
    if weight.width == 4:
        check_block("mxint4_dequantize", weight.block, 2)
    out = torch.empty(weight.rows, weight.columns, dtype=dtype, device=weight.codes.device)
    groups = weight.exponents.shape[1]
    total, largest = weight.rows * groups, torch.finfo(dtype).max
    if not total:
        return out
    fixed: dict[str, Any] = {"BLOCK": weight.block, "WHOLE": weight.columns % weight.block == 0}
    sizes = (weight.codes, weight.exponents, out, weight.rows, weight.columns, groups)

    def _launch(c: Config) -> None:
        grid, warps = (-(-total // c["count"]),), c["num_warps"]
        if weight.width == 4:
            half = max(next_power_of_2(weight.block) // 2, 1)
            _values4[grid](*sizes, weight.codes.shape[1], largest, **fixed, HALF=half, COUNT=c["count"],
                           CLIP=dtype == torch.float16, num_warps=warps)  # fmt: skip
            return
        width = next_power_of_2(weight.block)
        if trick:
            _bits8[grid](*sizes, **fixed, WIDTH=width, COUNT=c["count"], num_warps=warps)
        else:
            clip = dtype == torch.float16
            _values8[grid](*sizes, largest, **fixed, WIDTH=width, COUNT=c["count"], CLIP=clip, num_warps=warps)

    name = f"mx_dequantize{weight.width}{'b' * trick}|{dtype}|{bucket(n=total, block=weight.block)}"
    _launch(tuned(name, weight.codes.device.type, CONFIGS, _launch))
    return out


def by_bits(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The values by the bit trick, for exponents above 0."""
    return by_triton(weight, dtype, True)


def by_numba(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The values by loops on the CPU, in one pass."""
    from espalier.kernels.fake_quant.chunks import over_rows
    from espalier.kernels.fake_quant.cpu import words
    from espalier.kernels.fake_quant.loops import mx

    if dtype not in DTYPES or (weight.width == 4 and weight.block % 2):
        return plain(weight, dtype)
    loop = mx.values4 if weight.width == 4 else mx.values8
    out = torch.empty(weight.rows, weight.columns, dtype=dtype)
    into = words(out).reshape(out.shape)
    over_rows(loop, weight.codes.numpy(), weight.exponents.numpy(), into, (np.int64(weight.block),))
    return out


def values(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The values, by Triton if possible."""
    able = weight.width == 8 or (weight.block & (weight.block - 1) == 0 and weight.block > 1)  # two codes per byte
    return by_triton(weight, dtype) if able and dtype in DTYPES else plain(weight, dtype)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def random_weight(rows: int, columns: int, width: int, device: str, seed: int, block: int = BLOCK) -> MXWeight:
    """A random weight, encoded in slices, since encoding in float takes much more memory than the codes."""
    generator = torch.Generator(device).manual_seed(seed)
    step = max((1 << 26) // max(columns, 1), 1)
    parts: list[MXWeight] = []
    for start in range(0, rows, step):
        x = torch.randn(min(step, rows - start), columns, generator=generator, device=device)
        parts.append(packed(MXInt(width, block), x * 0.02))
    codes, exponents = (torch.cat([getattr(p, name) for p in parts]) for name in ("codes", "exponents"))
    return MXWeight(codes, exponents, columns, width, block)


def _inputs(width: int) -> Any:
    def make(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
        return random_weight(shape["rows"], shape["columns"], width, device, seed), dtype

    return make


def _reference(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    return plain(weight, dtype)


def by_torch(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The definition in torch ops, each with a pass over memory."""
    return plain(weight, dtype)


def _bytes(width: int) -> Any:
    def traffic(shape: Shape, size: int) -> int:
        n, groups = shape["rows"] * shape["columns"], shape["rows"] * -(-shape["columns"] // BLOCK)
        return n * width // 8 + groups + n * size

    return traffic


def _trick_only(shape: Shape, dtype: str, device: str) -> str:
    return "" if dtype in ("bfloat16", "float32") else "it puts a bfloat16 together"


def _versions(width: int) -> tuple[Version, ...]:
    about = "a bfloat16 put together from bits (dont_need_abs, bias)"
    trick = Version("bits", by_bits, about, ("cuda",), ("triton",),
                    refuses=_trick_only, shows=(_bits8,))  # fmt: skip
    return (
        Version("torch", by_torch, "the definition in torch ops", shows=(plain,)),
        Version("triton", by_triton, "code times a power of two, one pass", ("cuda",), ("triton",),
                shows=(_values8 if width == 8 else _values4, _power)),
        *((trick,) if width == 8 else ()),
        Version("numba", by_numba, "one pass on the CPU", ("cpu",), ("numba",)),
    )  # fmt: skip


def _kernel(width: int) -> Kernel:
    return Kernel(
        name=f"mxint{width}_dequantize",
        title=f"MXINT{width} to float",
        about=f"Dequantises weights of {width} bits with an exponent byte per 32. Limited by memory.",
        formula=f"y = m/{2 ** (width - 2)}·2^(s − 127)",
        family="Back to float",
        dims=("rows", "columns"),
        inputs=_inputs(width),
        reference=_reference,
        versions=_versions(width),
        flops=lambda s: s["rows"] * s["columns"],
        traffic=_bytes(width),
        shapes={
            "cpu": ({"rows": 768, "columns": 3072}, {"rows": 333, "columns": 1000}),
            "cuda": ({"rows": 16384, "columns": 16384}, {"rows": 8192, "columns": 28672}),
        },
        sweep={
            "cpu": tuple({"rows": r, "columns": 1024} for r in (16, 64, 256, 1024, 4096)),
            "cuda": tuple({"rows": r, "columns": 8192} for r in (64, 256, 1024, 4096, 16384, 32768)),
        },
        tolerance={"float32": 0.0, "bfloat16": 0.0, "float16": 0.0},
    )


KERNELS = [add(_kernel(width)) for width in (8, 4)]
