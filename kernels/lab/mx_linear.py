"""Products with MX weights: y = x·Wᵀ + b, where W is decoded in registers.

One row of x reads the weight once, at half the bytes of bfloat16. Many rows are limited by arithmetic, so a product
of dequantised values is faster.
"""

# pyright: reportPrivateUsage=false, reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_block, check_float_dtypes, check_no_gradient
from espalier.kernels.bench.jit import in_float32, jit, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned
from espalier.kernels.lab.mx_dequantize import BLOCK, DTYPES, _power, by_numba, by_triton, random_weight, values
from espalier.model.torch.mx_weights import MXWeight, plain

FEW = 128  # rows of x per program
MANY = 512  # rows of x from which the weight is dequantised first, if not tuned


@jit
def _to_float32(code, ASM: tl.constexpr):
    """int8 to float32, four at a time: bytes inserted into the bits of 2^23, less 2^23 + 128."""
    if ASM:
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 t;
            .reg .f32 a;
            xor.b32 t, $4, 0x80808080;
            prmt.b32 $0, t, 0x4B000000, 0x7650;
            prmt.b32 $1, t, 0x4B000000, 0x7651;
            prmt.b32 $2, t, 0x4B000000, 0x7652;
            prmt.b32 $3, t, 0x4B000000, 0x7653;
            }
            """,
            "=r,=r,=r,=r,r", [code], dtype=tl.float32, is_pure=True, pack=4) - 8388736.0  # fmt: skip
    else:
        return code.to(tl.float32)


@jit
def _to_bfloat16(code, ASM: tl.constexpr):
    """int8 to bfloat16, two at a time: 128 + seven bits, less 128 or 256 by the sign bit."""
    if ASM:
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 a, b;
            prmt.b32 a, $2, 0x43434343, 0x4140;
            and.b32 b, a, 0xFF80FF80;
            and.b32 a, a, 0xFF7FFF7F;
            sub.bf16x2 $0, a, b;
            prmt.b32 a, $2, 0x43434343, 0x4342;
            and.b32 b, a, 0xFF80FF80;
            and.b32 a, a, 0xFF7FFF7F;
            sub.bf16x2 $1, a, b;
            }
            """,
            "=r,=r,r", [code], dtype=tl.bfloat16, is_pure=True, pack=4)  # fmt: skip
    else:
        return code.to(tl.float32)


@jit
def _vector(
    x, codes, exponents, bias, out, n, k, groups, across, x_row, x_step, out_row,
    BLOCK: tl.constexpr, N: tl.constexpr, G: tl.constexpr, NIBBLES: tl.constexpr, WHOLE: tl.constexpr,
    BIASED: tl.constexpr, ASM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """N results of one row of x: G blocks of each weight row at a time, summed last."""
    row = (tl.program_id(0) * N + tl.arange(0, N)).to(tl.int64)
    at_x = x + tl.program_id(1).to(tl.int64) * x_row
    per: tl.constexpr = BLOCK // 2 if NIBBLES else BLOCK
    inner = tl.arange(0, per)[None, None, :]
    step: tl.constexpr = 2 if NIBBLES else 1
    unit: tl.constexpr = 0.25 if NIBBLES else 0.015625
    total = tl.zeros((N, G), tl.float32)
    for first in tl.range(0, groups, G, num_stages=STAGES):
        group = first + tl.arange(0, G)
        in_range = (row[:, None] < n) & (group[None, :] < groups)
        e = tl.load(exponents + row[:, None] * groups + group[None, :], mask=in_range, other=0)
        column = group[None, :, None] * BLOCK + step * inner
        there = in_range[:, :, None] if WHOLE else in_range[:, :, None] & (column < k)
        code = tl.load(
            codes + row[:, None, None] * across + group[None, :, None] * per + inner,
            mask=there,
            other=0,
            eviction_policy="evict_first",
        )
        v = tl.load(at_x + column * x_step, mask=column < k, other=0).to(tl.float32)
        if NIBBLES:
            byte = code.to(tl.int32)
            w = tl.load(at_x + (column + 1) * x_step, mask=column + 1 < k, other=0).to(tl.float32)
            part = ((byte << 28) >> 28).to(tl.float32) * v + ((byte << 24) >> 28).to(tl.float32) * w
        else:
            part = _to_float32(code, ASM) * v
        total += tl.sum(part, 2) * (_power(e) * unit)
    y = tl.sum(total, 1)
    if BIASED:
        y += tl.load(bias + row, mask=row < n, other=0).to(tl.float32)
    tl.store(out + tl.program_id(1).to(tl.int64) * out_row + row, y.to(out.dtype.element_ty), mask=row < n)


@jit
def _tile(
    x, codes, exponents, bias, out, m, n, k, groups, across, x_row, x_step, out_row,
    BLOCK: tl.constexpr, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr, NIBBLES: tl.constexpr,
    WHOLE: tl.constexpr, BIASED: tl.constexpr, EXACT: tl.constexpr, ASM: tl.constexpr,
    SPLIT: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    """N × M results; the weight is the first operand, which may come from registers.

    MIXED: x is ordered by `mixed`, so that each thread of the product needs four adjacent codes.
    """
    tiles = tl.cdiv(n, N)
    row = ((tl.program_id(0) % tiles) * N + tl.arange(0, N)).to(tl.int64)
    token = ((tl.program_id(0) // tiles) * M + tl.arange(0, M)).to(tl.int64)
    per: tl.constexpr = BLOCK // 2 if NIBBLES else BLOCK
    inner = tl.arange(0, per)[None, None, :]
    column = tl.arange(0, G * BLOCK)
    unit: tl.constexpr = 0.25 if NIBBLES else 0.015625
    total = tl.zeros((N, M), tl.float32)
    groups_per_part = (
        tl.cdiv(tl.cdiv(groups, G), SPLIT) * G
    )  # groups of the contraction per part; parts are summed afterwards
    start = tl.program_id(1) * groups_per_part
    end = tl.minimum(start + groups_per_part, groups)
    group = start + tl.arange(0, G)
    in_range = (row[:, None] < n) & (group[None, :] < groups)
    following = tl.load(exponents + row[:, None] * groups + group[None, :], mask=in_range, other=0)
    for first in range(start, end, G):
        e, group = following, first + tl.arange(0, G)
        in_range = (row[:, None] < n) & (group[None, :] < groups)
        ahead = (row[:, None] < n) & (group[None, :] + G < groups)  # too small for pipelined loads
        following = tl.load(exponents + row[:, None] * groups + group[None, :] + G, mask=ahead, other=0)
        positions = group[None, :, None] * per + inner
        there = in_range[:, :, None] if WHOLE else in_range[:, :, None] & (positions < across)
        code = tl.load(codes + row[:, None, None] * across + positions, mask=there, other=0)
        if NIBBLES:
            byte = code.to(tl.int32)
            code = tl.interleave((byte << 28) >> 28, (byte << 24) >> 28)
        if ASM:  # in bfloat16 the product with a power of two is exact, except for weights below 2^-120
            scale = (tl.maximum(e.to(tl.int32) - 6, 0) << 7).to(tl.int16).to(tl.bfloat16, bitcast=True)
            w = _to_bfloat16(code, ASM) * scale[:, :, None]
        else:
            w = code.to(tl.float32) * (_power(e) * unit)[:, :, None]
        if MIXED:
            w = tl.trans(tl.reshape(w, (N, G * BLOCK // 16, 4, 2, 2)), (0, 1, 3, 2, 4))
        w = tl.reshape(w, (N, G * BLOCK))
        at = first * BLOCK + column
        v = tl.load(x + token[None, :] * x_row + at[:, None] * x_step, mask=(token[None, :] < m) & (at[:, None] < k),
                    other=0)  # fmt: skip
        if EXACT:
            total = tl.dot(w, v.to(tl.float32), total, input_precision="ieee")
        else:
            total = tl.dot(w.to(v.dtype), v, total)
    if BIASED and tl.program_id(1) == 0:
        total += tl.load(bias + row, mask=row < n, other=0).to(tl.float32)[:, None]
    valid = (row[:, None] < n) & (token[None, :] < m)
    out += tl.program_id(1).to(tl.int64) * m * n
    tl.store(out + token[None, :] * out_row + row[:, None], total.to(out.dtype.element_ty), mask=valid)


# method 0: one row of x at a time; 1: tiles; 2: dequantised, then torch's product.
VECTOR: list[Config] = [
    {"way": 0, "n": n, "g": g, "num_warps": w, "stages": s}
    for n, g, w, s in ((4, 32, 4, 3), (2, 64, 4, 1), (2, 64, 4, 3), (1, 128, 4, 1), (1, 128, 2, 1), (1, 64, 2, 1),
                       (1, 128, 4, 3), (2, 32, 2, 1), (4, 16, 2, 1), (1, 256, 4, 1), (2, 128, 4, 1))
]  # fmt: skip
VALUES: Config = {"way": 2}


def _tiles(m: int, exact: bool) -> list[Config]:
    """Candidate tiles for `m` rows of x; `exact`: small ones, as float32 has no matrix units."""
    names = ("m", "n", "g", "num_warps", "num_stages", "split", "mixed")
    if exact:
        small = ((16, 32, 2, 4, 2, 1, 0), (16, 32, 2, 4, 2, 4, 0))
        return [{"way": 1, **dict(zip(names, size, strict=True))} for size in small]
    rows = 16 if m <= 16 else 32 if m <= 32 else 64 if m <= 64 else 128
    small_tiles = (
        (64, 4, 4, 4, 1),
        (64, 4, 4, 4, 4),
        (64, 2, 4, 5, 4),
        (64, 4, 4, 3, 8),
        (64, 8, 4, 3, 4),
        (128, 4, 4, 3, 8),
        (64, 2, 4, 4, 8),
        (128, 2, 8, 4, 4),
    )
    large_tiles = ((128, 2, 8, 4, 1), (128, 2, 8, 3, 2), (128, 4, 8, 3, 1), (64, 4, 4, 3, 1))
    sizes = [(rows, *size) for size in (small_tiles if rows <= 64 else large_tiles)]
    if m > 128:
        sizes += [(256, 128, 2, 8, 3, 1), (256, 64, 2, 4, 3, 1), (256, 128, 2, 8, 3, 2), (256, 128, 4, 8, 2, 1)]
    dequantised = [(*size, 0) for size in sizes[:2]]
    return [{"way": 1, **dict(zip(names, size, strict=True))} for size in (*((*s, 1) for s in sizes), *dequantised)]


def _candidates(m: int, device: str, exact: bool) -> list[Config]:
    if device != "cuda":
        return VECTOR[:1] if m == 1 else [{**_tiles(m, True)[0], "n": 16, "split": 2, "mixed": 1}]
    candidates = VECTOR if m == 1 else [] if m > 4096 else _tiles(m, exact)
    return [*(VECTOR[:2] if 1 < m <= 4 else []), *candidates, *([VALUES] if m > FEW else [])]


def mixed(rows: Tensor) -> Tensor:
    """Columns in the order of matrix units' thread pairs: 0 1 4 5 8 9 12 13, then 2 3 6 7 …"""
    parts = rows.reshape(rows.shape[0], rows.shape[1] // 16, 4, 2, 2).transpose(2, 3)
    return parts.reshape(rows.shape)


def linear_triton(x: Tensor, weight: MXWeight, bias: Tensor | None = None) -> Tensor:
    """x·Wᵀ + b by Triton; any leading shape and strides of x. Blocks are powers of two from 16 on."""
    check_float_dtypes("mx_linear", x)
    check_no_gradient("mx_linear", x, bias)
    check_block("mx_linear", weight.block, 16)
    rows = x.reshape(-1, x.shape[-1])
    m, n, k = rows.shape[0], weight.rows, weight.columns
    if not m or not n:
        return F.linear(x, plain(weight, x.dtype), bias)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    nibbles = weight.width == 4
    fast = x.is_cuda and x.dtype == torch.bfloat16 and not nibbles
    groups, across = weight.exponents.shape[1], weight.codes.shape[1]
    bias_or_x = bias if bias is not None else x
    fixed: dict[str, Any] = {"BLOCK": weight.block, "NIBBLES": nibbles, "WHOLE": k % weight.block == 0,
                             "BIASED": bias is not None}  # fmt: skip

    def _launch(c: Config) -> Tensor:
        if c["way"] == 2:
            return F.linear(rows, by_triton(weight, x.dtype), bias)
        mix = c["way"] == 1 and c["mixed"] == 1 and k % 16 == 0
        ordered = mixed(rows) if mix else rows
        common = (n, k, groups, across, *ordered.stride(), out.stride(0))
        if c["way"] == 0:
            _vector[(-(-n // c["n"]), m)](rows, weight.codes, weight.exponents, bias_or_x, out, *common, **fixed,
                                          N=c["n"], G=c["g"], ASM=x.is_cuda, STAGES=c["stages"],
                                          num_warps=c["num_warps"])  # fmt: skip
            return out
        split = c["split"]
        grid = (-(-n // c["n"]) * -(-m // c["m"]), split)
        into = out if split == 1 else torch.empty(split, m, n, device=x.device)
        g = max(c["g"] * 32 // weight.block, 1)
        _tile[grid](ordered, weight.codes, weight.exponents, bias_or_x, into, m, *common, **fixed, M=c["m"], N=c["n"],
                    G=g, EXACT=in_float32(x.dtype, x.device.type), ASM=fast, num_warps=c["num_warps"],
                    num_stages=c["num_stages"], SPLIT=split, MIXED=mix)  # fmt: skip
        return out if split == 1 else torch.sum(into, 0).to(x.dtype)

    key = f"mx_linear{weight.width}|{x.dtype}|{bucket(m=m, n=n, k=k, block=weight.block)}"
    result = _launch(tuned(key, x.device.type, _candidates(m, x.device.type, x.dtype == torch.float32), _launch))
    return result.reshape(*x.shape[:-1], n)


def linear_values(x: Tensor, weight: MXWeight, bias: Tensor | None = None) -> Tensor:
    """Dequantised, then torch's product."""
    return F.linear(x, values(weight, x.dtype) if x.is_cuda else by_numba(weight, x.dtype), bias)


def linear_numba(x: Tensor, weight: MXWeight, bias: Tensor | None = None) -> Tensor:
    """Product for one float32 row from the codes, on the CPU; the order of summation differs from torch's."""
    from espalier.kernels.fake_quant.chunks import over_rows
    from espalier.kernels.fake_quant.loops import mx

    if x.numel() != weight.columns or weight.width != 8 or x.dtype != torch.float32:
        return linear_values(x, weight, bias)
    out = torch.empty(weight.rows)
    parameters = x.detach().contiguous().view(-1).numpy(), np.int64(weight.block)
    over_rows(mx.vector8, weight.codes.numpy(), weight.exponents.numpy(), out.numpy(), parameters)
    result = out if bias is None else out + bias
    return result.reshape(*x.shape[:-1], weight.rows)


def product_cuda(x: Tensor, weight: MXWeight, bias: Tensor | None) -> Tensor:
    """The product of an MXLinear on a GPU."""
    power_of_two = weight.block & (weight.block - 1) == 0 and weight.block >= 16
    if power_of_two and x.dtype in DTYPES and not torch.is_grad_enabled():
        return linear_triton(x, weight, bias)
    return F.linear(x, values(weight, x.dtype), bias)


def linear_torch(x: Tensor, weight: MXWeight, dense: Tensor) -> Tensor:
    """torch's product with the same weight in the dtype of x, as the baseline."""
    return F.linear(x, dense)


def _inputs(width: int) -> Any:
    def make(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
        weight = random_weight(shape["n"], shape["k"], width, device, seed)
        generator = torch.Generator(device).manual_seed(seed + 1)
        x = torch.randn(shape["m"], shape["k"], generator=generator, device=device).to(dtype)
        return x, weight, values(weight, dtype) if device == "cuda" else plain(weight, dtype)

    return make


SAMPLED = 256  # rows of x compared with the reference


def _reference(x: Tensor, weight: MXWeight, dense: Tensor) -> Tensor:
    """The result for the first rows of x in float64, in slices of the weight."""
    rows = x[:SAMPLED].double()
    parts = dense.split(max((1 << 26) // max(dense.shape[1], 1), 1))
    return torch.cat([rows @ part.double().t() for part in parts], 1)


def _sampled(out: Tensor, *inputs: Any) -> Tensor:
    return out[:SAMPLED]


def _bytes(width: int) -> Any:
    def traffic(shape: Shape, size: int) -> int:
        m, n, k = shape["m"], shape["n"], shape["k"]
        return n * k * width // 8 + n * -(-k // BLOCK) + (m * k + m * n) * size

    return traffic


def _dense_bytes(shape: Shape, size: int) -> int:
    m, n, k = shape["m"], shape["n"], shape["k"]
    return (n * k + m * k + m * n) * size


def _one_row(shape: Shape, dtype: str, device: str) -> str:
    return "" if shape["m"] == 1 and dtype == "float32" else "for one row of float32"


def _versions(width: int) -> tuple[Version, ...]:
    loops = Version("numba", lambda x, w, dense: linear_numba(x, w), "one row straight from the codes", ("cpu",),
                    ("numba",), refuses=_one_row, shows=(linear_numba,))  # fmt: skip
    return (
        Version("torch", linear_torch, "the same weight in the dtype of x", traffic=_dense_bytes),
        Version("triton", lambda x, w, dense: linear_triton(x, w), "values made in registers, or first where rows are "
                "many", ("cuda",), ("triton",), shows=(linear_triton, _vector, _tile, _to_float32, _to_bfloat16)),
        Version("dequantised", lambda x, w, dense: linear_values(x, w), "values in memory, then torch's product",
                shows=(linear_values,)),
        *((loops,) if width == 8 else ()),
    )  # fmt: skip


def _kernel(width: int) -> Kernel:
    return Kernel(
        name=f"mxint{width}_linear",
        title=f"Linear with MXINT{width} weights",
        about=f"x·Wᵀ with W of {width} bits and x in float (W{width}A16). One row reads the weight once.",
        formula="y = x·Wᵀ",
        family="Products",
        dims=("m", "n", "k"),
        inputs=_inputs(width),
        reference=_reference,
        versions=_versions(width),
        flops=lambda s: 2 * s["m"] * s["n"] * s["k"],
        traffic=_bytes(width),
        shapes={
            "cpu": ({"m": 1, "n": 3072, "k": 768}, {"m": 64, "n": 768, "k": 768}),
            "cuda": tuple({"m": m, "n": 16384, "k": 16384} for m in (1, 16, 256, 4096)),
        },
        sweep={
            "cpu": tuple({"m": m, "n": 1024, "k": 1024} for m in (1, 2, 4, 8, 16, 32, 64)),
            "cuda": tuple({"m": m, "n": 8192, "k": 8192} for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)),
        },
        sampled=_sampled,
    )


KERNELS = [add(_kernel(width)) for width in (8, 4)]
