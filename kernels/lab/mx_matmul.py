"""Product of two MXINT8 matrices: integer products and sums within a block, then scaled by 2^(e + f).

Sums within a block are exact; those over blocks are rounded in float32.
"""

# pyright: reportPrivateUsage=false, reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

import torch
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_block
from espalier.kernels.bench.jit import jit, tl
from espalier.kernels.bench.spec import Inputs, Kernel, KernelError, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned
from espalier.kernels.lab.mx_dequantize import BLOCK, _power, by_numba, random_weight, values
from espalier.kernels.lab.mx_linear import linear_triton
from espalier.model.torch.mx_weights import MXWeight, plain


@jit
def _tile(
    a, a_exponents, b, b_exponents, out, m, n, k, groups, out_row,
    BLOCK: tl.constexpr, M: tl.constexpr, N: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """M × N results, block by block of the contraction."""
    across = tl.cdiv(n, N)
    row = ((tl.program_id(0) // across) * M + tl.arange(0, M)).to(tl.int64)
    column = ((tl.program_id(0) % across) * N + tl.arange(0, N)).to(tl.int64)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for group in range(0, groups):
        at = group * BLOCK + inner
        there = at < k if not WHOLE else at >= 0
        a_codes = tl.load(a + row[:, None] * k + at[None, :], mask=(row[:, None] < m) & there[None, :], other=0)
        right = tl.load(b + column[None, :] * k + at[:, None], mask=(column[None, :] < n) & there[:, None], other=0)
        e = _power(tl.load(a_exponents + row * groups + group, mask=row < m, other=0)) * 0.015625
        f = _power(tl.load(b_exponents + column * groups + group, mask=column < n, other=0)) * 0.015625
        total += tl.dot(a_codes, right).to(tl.float32) * e[:, None] * f[None, :]
    valid = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * out_row + column[None, :], total.to(out.dtype.element_ty), mask=valid)


CONFIGS: list[Config] = [
    {"m": m, "n": n, "num_warps": w, "num_stages": s}
    for m, n, w, s in ((128, 128, 8, 4), (128, 128, 4, 4), (64, 128, 4, 4), (128, 64, 4, 4), (64, 64, 4, 4))
]  # fmt: skip


def matmul_triton(a: MXWeight, b: MXWeight, dtype: torch.dtype = torch.float32) -> Tensor:
    """A·Bᵀ by Triton, in integers or, if faster, with dequantised A; 8 bits, blocks of 32, 64 or 128."""
    check_block("mx_matmul", a.block, 32, 128)
    if (a.columns, a.block, a.width) != (b.columns, b.block, b.width) or a.width != 8:
        raise KernelError(
            "mx_matmul takes two weights of 8 bits with the same columns and blocks.", "Pack both with equal settings."
        )
    m, n, k = a.rows, b.rows, a.columns
    out = torch.empty(m, n, dtype=dtype, device=a.codes.device)
    arguments = (a.codes, a.exponents, b.codes, b.exponents, out, m, n, k, a.exponents.shape[1], out.stride(0))

    def _launch(c: Config) -> Tensor:
        if c.get("way") == 1:
            return linear_triton(values(a, dtype), b)
        grid = (-(-m // c["m"]) * -(-n // c["n"]),)
        _tile[grid](*arguments, BLOCK=a.block, M=c["m"], N=c["n"], WHOLE=k % a.block == 0, num_warps=c["num_warps"],
                    num_stages=c["num_stages"])  # fmt: skip
        return out

    configs = [{"way": 1}, *CONFIGS] if a.codes.is_cuda else [{"m": 32, "n": 32, "num_warps": 4, "num_stages": 1}]
    return _launch(
        tuned(f"mx_matmul|{dtype}|{bucket(m=m, n=n, k=k, block=a.block)}", a.codes.device.type, configs, _launch)
    )


def matmul_values(a: MXWeight, b: MXWeight, dtype: torch.dtype) -> Tensor:
    """Dequantise both, then torch's product."""
    dequantise = values if a.codes.is_cuda else by_numba
    return dequantise(a, dtype) @ dequantise(b, dtype).t()


def matmul_dense(a: Tensor, b: Tensor) -> Tensor:
    """torch's product of the same matrices in float."""
    return a @ b.t()


SAMPLED = 256


def _inputs(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    a, b = (random_weight(shape[name], shape["k"], 8, device, seed + i) for i, name in enumerate(("m", "n")))
    dequantise = values if device == "cuda" else plain
    return a, b, dequantise(a, dtype), dequantise(b, dtype)


def _reference(a: MXWeight, b: MXWeight, a_values: Tensor, b_values: Tensor) -> Tensor:
    parts = b_values.split(max((1 << 26) // max(b_values.shape[1], 1), 1))
    return torch.cat([a_values[:SAMPLED].double() @ part.double().t() for part in parts], 1)


def _bytes(shape: Shape, size: int) -> int:
    m, n, k = shape["m"], shape["n"], shape["k"]
    return (m + n) * (k + -(-k // BLOCK)) + m * n * size


def _dense_bytes(shape: Shape, size: int) -> int:
    m, n, k = shape["m"], shape["n"], shape["k"]
    return ((m + n) * k + m * n) * size


KERNEL = add(
    Kernel(
        name="mxint8_matmul",
        title="MXINT8 × MXINT8",
        about="A product of two matrices in MXINT8: integers within a block, scaled by a power of two.",
        formula="c = Σ over blocks 2^(e + f)·Σ aᵢ·bᵢ",
        family="Products",
        dims=("m", "n", "k"),
        inputs=_inputs,
        reference=_reference,
        versions=(
            Version("torch", lambda a, b, left, right: matmul_dense(left, right), "the same matrices in float",
                    traffic=_dense_bytes, shows=(matmul_dense,)),
            Version("triton", lambda a, b, left, right: matmul_triton(a, b, left.dtype), "int8 products, scaled block "
                    "by block, or values of A times the codes of B", ("cuda",), ("triton",),
                    shows=(matmul_triton, _tile)),
            Version("dequantised", lambda a, b, left, right: matmul_values(a, b, left.dtype), "both dequantised first",
                    shows=(matmul_values,)),
        ),
        flops=lambda s: 2 * s["m"] * s["n"] * s["k"],
        traffic=_bytes,
        shapes={
            "cpu": ({"m": 64, "n": 256, "k": 768},),
            "cuda": ({"m": 16, "n": 8192, "k": 8192}, {"m": 8192, "n": 8192, "k": 8192}),
        },
        sweep={
            "cpu": tuple({"m": m, "n": 512, "k": 512} for m in (1, 4, 16, 64, 256)),
            "cuda": tuple({"m": s, "n": s, "k": s} for s in (512, 1024, 2048, 4096, 8192)),
        },
        sampled=lambda out, *inputs: out[:SAMPLED],
    )
)  # fmt: skip
