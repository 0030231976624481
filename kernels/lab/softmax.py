"""Softmax over the last dimension: a row that fits the registers is read and written once, otherwise read twice.

The naive version runs op by op in torch; it reads 5MN + 2M elements and writes 3MN + 2M.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_float_dtypes, check_no_gradient
from espalier.kernels.bench.jit import jit, next_power_of_2, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned

LONGEST = 32768  # elements of a row in registers at once
CHUNK = 8192
ELEMENTS = 8192  # elements per program for short rows


@jit
def _rows(x, out, m, n, x_row, x_step, out_row, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """ROWS whole rows of up to BLOCK elements."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    valid = (row < m) & (column < n)
    v = tl.load(x + row * x_row + column * x_step, mask=valid, other=-float("inf")).to(tl.float32)
    v = tl.where(row < m, v, 0.0)
    e = tl.exp(v - tl.max(v, 1)[:, None])
    e = e / tl.sum(e, 1)[:, None]
    tl.store(out + row * out_row + column, e.to(out.dtype.element_ty), mask=valid)


@jit
def _long_row(x, out, n, x_row, x_step, out_row, BLOCK: tl.constexpr):
    """One long row: running maximum and sum (online softmax), then a second pass writes."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = (start + column).to(tl.int64)
        v = tl.load(x + row * x_row + at * x_step, mask=at < n, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, v)
        base = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = higher
    largest = tl.max(top, 0)
    scale = 1.0 / tl.sum(total * tl.exp(top - largest), 0)
    for start in range(0, n, BLOCK):
        at = (start + column).to(tl.int64)
        v = tl.load(x + row * x_row + at * x_step, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * out_row + at, (tl.exp(v - largest) * scale).to(out.dtype.element_ty), mask=at < n)


def softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension by Triton; any shape and strides."""
    check_float_dtypes("softmax", x)
    check_no_gradient("softmax", x)
    n = x.shape[-1] if x.ndim else 1
    rows = x.reshape(-1, n) if x.numel() else x.reshape(0, max(n, 1))
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    m = rows.shape[0]
    if not m:
        return out.reshape(x.shape)
    strides = (*rows.stride(), out.stride(0))

    def _long(c: Config) -> None:
        _long_row[(m,)](rows, out, n, *strides, BLOCK=CHUNK, **c)

    def _short(c: Config) -> None:
        rows_per_program = c["rows"]
        _rows[(-(-m // rows_per_program),)](
            rows, out, m, n, *strides, BLOCK=block, ROWS=rows_per_program, num_warps=c["num_warps"]
        )

    block = next_power_of_2(n)
    _launch = _long if n > LONGEST else _short
    configs = [{"num_warps": w} for w in (16, 8, 32)] if n > LONGEST else _candidates(block)
    _launch(tuned(f"softmax|{x.dtype}|{bucket(m=m, n=n)}", x.device.type, configs, _launch))
    return out.reshape(x.shape)


def _candidates(block: int) -> list[Config]:
    """Candidate (rows per program, warps); small blocks only with many rows."""
    max_rows = max(ELEMENTS // block, 1)
    counts = {r for r in (max_rows, max(max_rows // 4, 1), 1) if r == max_rows or r * block >= 256}
    return [{"rows": r, "num_warps": w} for r in sorted(counts, reverse=True) for w in (8, 4, 16)]


def naive(x: Tensor) -> Tensor:
    """Op by op: maximum, difference, exponential, sum and quotient, each with a pass over memory."""
    top = x.max(dim=-1, keepdim=True).values
    shifted = x - top
    numerator = shifted.exp()
    total = numerator.sum(dim=-1, keepdim=True)
    return numerator / total


def fused(x: Tensor) -> Tensor:
    """torch's own."""
    return torch.softmax(x, -1)


def _inputs(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape["m"], shape["n"], generator=generator, device=device, dtype=torch.float32).to(dtype),)


def _reference(x: Tensor) -> Tensor:
    return torch.softmax(x.double(), -1)


def _naive_bytes(shape: Shape, size: int) -> int:
    m, n = shape["m"], shape["n"]
    return (8 * m * n + 4 * m) * size


@cache
def _compile() -> Any:
    return torch.compile(naive)


def _compiled(x: Tensor) -> Tensor:
    """torch.compile of the naive version."""
    return _compile()(x)


KERNEL = add(
    Kernel(
        name="softmax",
        title="Softmax",
        about="Softmax of rows. Limited by memory: fused, a row is read once and written once.",
        formula="yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)",
        family="Attention, softmax",
        dims=("m", "n"),
        inputs=_inputs,
        reference=_reference,
        versions=(
            Version("torch", fused, "torch.softmax: fused"),
            Version("triton", softmax, "one program holds whole rows in registers", ("cuda",), ("triton",),
                    shows=(_rows, _long_row)),
            Version("naive", naive, "five torch ops; reads 5MN + 2M, writes 3MN + 2M", traffic=_naive_bytes),
            Version("compiled", _compiled, "torch.compile fuses the naive version", needs=("compiler",),
                    optional=True, shows=(naive,)),
        ),
        flops=lambda s: 5 * s["m"] * s["n"],
        traffic=lambda s, size: 2 * s["m"] * s["n"] * size,
        shapes={
            "cpu": ({"m": 1024, "n": 1024}, {"m": 128, "n": 16384}, {"m": 777, "n": 1000}),
            "cuda": tuple({"m": (1 << 27) // n, "n": n} for n in (1024, 2048, 4096, 8192, 16384)),
        },
        sweep={
            "cpu": tuple({"m": 256, "n": n} for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)),
            "cuda": tuple({"m": 4096, "n": n} for n in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)),
        },
    )
)  # fmt: skip
