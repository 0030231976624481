"""Layer norm over the last dimension, forward and backward: each row is read once, its moments stay in registers.

The backward pass gives the gradients of x, weight and bias; those of weight and bias are first summed per program.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_float_dtypes
from espalier.kernels.bench.jit import jit, next_power_of_2, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned

LONGEST = 32768
EPS = 1e-5


@jit
def _forward(x, w, b, out, means, factors, m, n, x_row, x_step, eps, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """(x − mean)·rstd·w + b of ROWS rows."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    valid = (row[:, None] < m) & (column < n)
    v = tl.load(x + row[:, None] * x_row + column * x_step, mask=valid, other=0).to(tl.float32)
    mean = tl.sum(v, 1) / n
    centred = tl.where(valid, v - mean[:, None], 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / n + eps)
    weight = tl.load(w + column, mask=column < n, other=0).to(tl.float32)
    bias = tl.load(b + column, mask=column < n, other=0).to(tl.float32)
    y = centred * factor[:, None] * weight + bias
    tl.store(out + row[:, None] * n + column, y.to(out.dtype.element_ty), mask=valid)
    tl.store(means + row, mean, mask=row < m)
    tl.store(factors + row, factor, mask=row < m)


@jit
def _backward(dy, x, w, means, factors, dx, dw, db, m, n, dy_row, x_row, rows_per_program, BLOCK: tl.constexpr):
    """`rows_per_program` rows one after another; partial dw and db in one row per program."""
    column = tl.arange(0, BLOCK)
    here = column < n
    weight = tl.load(w + column, mask=here, other=0).to(tl.float32)
    to_weight, to_bias = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * rows_per_program
    for i in range(0, rows_per_program):
        at = (first + i).to(tl.int64)
        there = here & (at + tl.zeros_like(column) < m)
        row = tl.minimum(at, m - 1)
        v = tl.load(x + at * x_row + column, mask=there, other=0).to(tl.float32)
        g = tl.load(dy + at * dy_row + column, mask=there, other=0).to(tl.float32)
        factor = tl.load(factors + row)
        normal = tl.where(there, (v - tl.load(means + row)) * factor, 0.0)
        pulled = weight * g
        along = tl.sum(normal * pulled, 0) / n
        level = tl.sum(pulled, 0) / n
        gradient = (pulled - normal * along - level) * factor
        tl.store(dx + at * n + column, gradient.to(dx.dtype.element_ty), mask=there)
        to_weight += g * normal
        to_bias += g
    pointers = tl.program_id(0).to(tl.int64) * n + column
    tl.store(dw + pointers, to_weight, mask=here)
    tl.store(db + pointers, to_bias, mask=here)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def forward(x: Tensor, w: Tensor, b: Tensor, eps: float = EPS) -> tuple[Tensor, Tensor, Tensor]:
    """(y, means, 1/σ) by Triton; any leading shape and strides of x, up to 32768 in a row."""
    check_float_dtypes("layer_norm", x)
    rows = _rows(x)
    m, n = rows.shape
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    means, factors = (torch.empty(m, device=x.device) for _ in range(2))
    block = next_power_of_2(n)

    def _launch(c: Config) -> None:
        _forward[(-(-m // c["rows"]),)](rows, w, b, out, means, factors, m, n, *rows.stride(), eps, BLOCK=block,
                                        ROWS=c["rows"], num_warps=c["num_warps"])  # fmt: skip

    if m:
        counts = sorted({max(8192 // block, 1), max(2048 // block, 1)}, reverse=True)
        configs: list[Config] = [{"rows": r, "num_warps": k} for r in counts for k in (8, 4, 16)]
        _launch(tuned(f"layer_norm|{x.dtype}|{bucket(m=m, n=n)}", x.device.type, configs, _launch))
    return out.reshape(x.shape), means, factors


def backward(
    dy: Tensor, x: Tensor, w: Tensor, means: Tensor, factors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight and bias by Triton."""
    rows, grads = _rows(x).contiguous(), _rows(dy).contiguous()
    m, n = rows.shape
    dx = torch.empty(m, n, dtype=x.dtype, device=x.device)
    programs = max(min(m, 1 if not x.is_cuda else 4 * _processors()), 1)
    rows_per_program = -(-m // programs)
    parts = torch.empty(2, programs, n, device=x.device)

    def _launch(c: Config) -> None:
        _backward[(programs,)](grads, rows, w, means, factors, dx, parts[0], parts[1], m, n, n, n, rows_per_program,
                               BLOCK=next_power_of_2(n), num_warps=c["num_warps"])  # fmt: skip

    configs: list[Config] = [{"num_warps": k} for k in (8, 4, 16)]
    _launch(tuned(f"layer_norm_backward|{x.dtype}|{bucket(m=m, n=n)}", x.device.type, configs, _launch))
    sums = parts.sum(1).to(w.dtype)
    return dx.reshape(x.shape), sums[0], sums[1]


def _processors() -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


class FusedLayerNorm(torch.autograd.Function):
    """Layer norm with both passes fused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
        """y"""
        y, means, factors = forward(x, w, b, eps)
        ctx.save_for_backward(x, w, means, factors)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Gradients of x, weight, bias."""
        x, w, means, factors = ctx.saved_tensors
        return *backward(grads[0], x, w, means, factors), None


def layer_norm(x: Tensor, w: Tensor, b: Tensor, eps: float = EPS) -> Tensor:
    """Layer norm over the last dimension, differentiable; torch's for rows that are too long."""
    if x.shape[-1] > LONGEST:
        return F.layer_norm(x, x.shape[-1:], w, b, eps)
    return FusedLayerNorm.apply(x, w, b, eps)  # type: ignore[no-any-return]


def naive(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Op by op: mean, difference, square, mean, root, quotient, weight, bias."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred * torch.rsqrt(variance + EPS) * w + b


def fused(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """torch's own."""
    return F.layer_norm(x, x.shape[-1:], w, b, EPS)


def _inputs(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    generator = torch.Generator(device).manual_seed(seed)
    m, n = shape["m"], shape["n"]
    x = torch.randn(m, n, generator=generator, device=device).to(dtype)
    w, b = (torch.randn(n, generator=generator, device=device).to(dtype) for _ in range(2))
    return x, w, b


def _reference(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x.double(), x.shape[-1:], w.double(), b.double(), EPS)


def _inputs_back(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    x, w, _ = _inputs(shape, dtype, device, seed)
    dy = torch.randn(x.shape, generator=torch.Generator(device).manual_seed(seed + 1), device=device).to(dtype)
    wide = x.float()
    means = wide.mean(-1)
    return dy, x, w, means, torch.rsqrt(wide.var(-1, unbiased=False) + EPS)


def _reference_back(dy: Tensor, x: Tensor, w: Tensor, means: Tensor, factors: Tensor) -> tuple[Tensor, ...]:
    g, v = dy.double(), x.double()
    factor = torch.rsqrt(v.var(-1, unbiased=False, keepdim=True) + EPS)
    normal = (v - v.mean(-1, keepdim=True)) * factor
    pulled = g * w.double()
    dx = (pulled - normal * (pulled * normal).mean(-1, keepdim=True) - pulled.mean(-1, keepdim=True)) * factor
    return dx, (g * normal).sum(0), g.sum(0)


def torch_back(dy: Tensor, x: Tensor, w: Tensor, means: Tensor, factors: Tensor) -> tuple[Tensor, ...]:
    """torch's own."""
    moments = (means[:, None], factors[:, None])
    if not x.is_cuda:  # on the CPU the moments have the dtype of x
        moments = (moments[0].to(x.dtype), moments[1].to(x.dtype))
    return torch.ops.aten.native_layer_norm_backward(dy, x, x.shape[-1:], *moments, w, w, [True, True, True])


SIZES = (256, 512, 768, 1024, 2048, 4096, 8192)
CPU_SHAPES: tuple[Shape, ...] = ({"m": 1024, "n": 768}, {"m": 100, "n": 1000})
CUDA_SHAPES: tuple[Shape, ...] = ({"m": 131072, "n": 1024}, {"m": 32768, "n": 4096}, {"m": 16384, "n": 8192})


def _too_long(shape: Shape, dtype: str, device: str) -> str:
    return f"rows of more than {LONGEST} do not fit" if shape["n"] > LONGEST else ""


def _kernel(name: str, title: str, about: str, formula: str, options: dict[str, Any], passes: int) -> Kernel:
    return Kernel(
        name=name, title=title, about=about, formula=formula, dims=("m", "n"),
        family="Layer norm",
        flops=lambda s: 8 * s["m"] * s["n"],
        traffic=lambda s, size: passes * s["m"] * s["n"] * size,
        shapes={"cpu": CPU_SHAPES, "cuda": CUDA_SHAPES},
        sweep={"cpu": tuple({"m": 256, "n": n} for n in SIZES), "cuda": tuple({"m": 16384, "n": n} for n in SIZES)},
        **options,
    )  # fmt: skip


KERNELS = [
    add(
        _kernel(
            "layer_norm", "Layer norm", "Layer norm of rows. Fused, a row is read once.",
            "y = (x − mean)/√(variance + ε)·w + b",
            {"inputs": _inputs, "reference": _reference, "versions": (
                Version("torch", fused, "torch's own"),
                Version("triton", lambda x, w, b: forward(x, w, b)[0], "whole rows in registers", ("cuda",),
                        ("triton",), refuses=_too_long, shows=(forward, _forward)),
                Version("naive", naive, "op by op",
                        traffic=lambda s, size: (11 * s["m"] * s["n"] + 8 * s["m"]) * size),
            )},
            2,
        )
    ),
    add(
        _kernel(
            "layer_norm_backward", "Layer norm, backward", "Gradients of x, weight and bias in one pass over the rows.",
            "dx = (w·dy − x̂·mean(x̂·w·dy) − mean(w·dy))·rstd",
            {"inputs": _inputs_back, "reference": _reference_back, "versions": (
                Version("torch", torch_back, "torch's own"),
                Version("triton", backward, "rows one after the other, sums by program", ("cuda",), ("triton",),
                        refuses=_too_long, shows=(_backward,)),
            )},
            3,
        )
    ),
]  # fmt: skip
