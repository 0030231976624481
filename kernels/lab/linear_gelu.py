"""Linear and GELU in one kernel: the product is rounded and activated in registers."""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_float_dtypes, check_no_gradient
from espalier.kernels.bench.jit import in_float32, jit, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned


@jit
def _tile(
    x, w, bias, out, m, n, k, x_row, x_step, w_row, w_step, out_row,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, EXACT: tl.constexpr, WHOLE: tl.constexpr,
    BIASED: tl.constexpr,
):  # fmt: skip
    """M × N results; programs are ordered in groups of rows, so that neighbours share their reads."""
    tall, wide = tl.cdiv(m, M), tl.cdiv(n, N)
    first = (tl.program_id(0) // (GROUP * wide)) * GROUP
    high = tl.minimum(tall - first, GROUP)
    within = tl.program_id(0) % (GROUP * wide)
    row = ((first + within % high) * M + tl.arange(0, M)).to(tl.int64)
    column = ((within // high) * N + tl.arange(0, N)).to(tl.int64)
    inner = tl.arange(0, K)
    x_pointers = x + (row % m)[:, None] * x_row + inner[None, :] * x_step
    right = w + (column % n)[None, :] * w_row + inner[:, None] * w_step
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        if WHOLE:
            a, b = tl.load(x_pointers), tl.load(right)
        else:
            a = tl.load(x_pointers, mask=(start + inner)[None, :] < k, other=0)
            b = tl.load(right, mask=(start + inner)[:, None] < k, other=0)
        if EXACT:
            total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
        else:
            total = tl.dot(a, b, total)
        x_pointers += K * x_step
        right += K * w_step
    if BIASED:
        total += tl.load(bias + column, mask=column < n, other=0).to(tl.float32)[None, :]
    y = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    valid = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * out_row + column[None, :], y.to(out.dtype.element_ty), mask=valid)


CONFIGS: list[Config] = [
    {"m": m, "n": n, "k": k, "num_warps": w, "num_stages": s}
    for m, n, k, w, s in ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 4),
                          (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 32, 4, 3))
]  # fmt: skip


SMALL: list[Config] = [{"m": 16, "n": 32, "k": 32, "num_warps": 4, "num_stages": 1}]  # float32 has no matrix units


def linear_gelu(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """gelu(x·Wᵀ + b) by Triton, of any leading shape and strides."""
    check_float_dtypes("linear_gelu", x, w, bias)
    check_no_gradient("linear_gelu", x, w, bias)
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    m, n, k = rows.shape[0], w.shape[0], w.shape[1]
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    fixed: dict[str, Any] = {"GROUP": 8, "EXACT": in_float32(x.dtype, x.device.type), "BIASED": bias is not None}

    def _launch(c: Config) -> None:
        grid = (-(-m // c["m"]) * -(-n // c["n"]),)
        _tile[grid](rows, w, x if bias is None else bias, out, m, n, k, *rows.stride(), *w.stride(), out.stride(0),
                    M=c["m"], N=c["n"], K=c["k"], WHOLE=k % c["k"] == 0, num_warps=c["num_warps"],
                    num_stages=c["num_stages"], **fixed)  # fmt: skip

    if out.numel():
        configs = SMALL if fixed["EXACT"] else CONFIGS
        _launch(tuned(f"linear_gelu|{x.dtype}|{bucket(m=m, n=n, k=k)}", x.device.type, configs, _launch))
    return out.reshape(*x.shape[:-1], n)


def by_torch(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """A product, then an activation that reads and writes it again."""
    return F.gelu(F.linear(x, w, bias))


@cache
def _compile() -> Any:
    return torch.compile(by_torch)


def compiled(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """torch.compile of both."""
    return _compile()(x, w, bias)  # type: ignore[no-any-return]


SAMPLED = 256


def _inputs(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device)

    m, n, k = shape["m"], shape["n"], shape["k"]
    return normal(m, k).to(dtype), (normal(n, k) / k**0.5).to(dtype), normal(n).to(dtype)


def _reference(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x[:SAMPLED].double(), w.double(), bias.double()))


def _bytes(shape: Shape, size: int) -> int:
    m, n, k = shape["m"], shape["n"], shape["k"]
    return (m * k + n * k + n + m * n) * size


def _apart_bytes(shape: Shape, size: int) -> int:
    return _bytes(shape, size) + 2 * shape["m"] * shape["n"] * size


KERNEL = add(
    Kernel(
        name="linear_gelu",
        title="Linear and GELU",
        about="A feed-forward's first half in one kernel, against a product and an activation.",
        formula="y = gelu(x·Wᵀ + b)",
        family="Products",
        dims=("m", "n", "k"),
        inputs=_inputs,
        reference=_reference,
        versions=(
            Version("torch", by_torch, "a product, then GELU", traffic=_apart_bytes),
            Version("triton", linear_gelu, "GELU in the registers of the product", ("cuda",), ("triton",),
                    shows=(_tile,)),
            Version("compiled", compiled, "torch.compile of both", needs=("compiler",), optional=True,
                    traffic=_apart_bytes),
        ),
        flops=lambda s: 2 * s["m"] * s["n"] * s["k"],
        traffic=_bytes,
        shapes={
            "cpu": ({"m": 128, "n": 3072, "k": 768},),
            "cuda": ({"m": 8192, "n": 16384, "k": 4096}, {"m": 16384, "n": 4096, "k": 1024}),
        },
        sweep={
            "cpu": tuple({"m": m, "n": 1024, "k": 256} for m in (1, 4, 16, 64, 256)),
            "cuda": tuple({"m": m, "n": 16384, "k": 4096} for m in (16, 64, 256, 1024, 4096, 16384)),
        },
        sampled=lambda out, *inputs: out[:SAMPLED],
    )
)  # fmt: skip
