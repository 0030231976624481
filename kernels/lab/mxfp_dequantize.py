"""Dequantisation of MX floats: minifloats of 8, 6 or 4 bits times a power of two per block, in one pass.

A minifloat's bits shifted into a float32 give its value up to a constant power of two, also for subnormals.
"""

# pyright: reportPrivateUsage=false, reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.kernels.bench.jit import jit, tl
from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned
from espalier.kernels.lab.mx_dequantize import _power
from espalier.model.formats.base import Encoded, Shared
from espalier.model.formats.mxfp import ELEMENTS, MXFP

BLOCK = 32


@dataclass(frozen=True, slots=True, eq=False)
class MXFloats:
    """A matrix in MXFP: uint8 codes one by one, of 4 bits two in a byte (the even column in the low half), and a uint8
    exponent for each block of 32 in a row."""

    codes: Tensor
    exponents: Tensor
    columns: int
    element: str

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 1 + sum(ELEMENTS[self.element][:2])

    @property
    def halves(self) -> bool:
        """Whether two elements share a byte."""
        return self.bits == 4


@lru_cache
def table(element: str) -> Tensor:
    """The value of every code, float32, by the format's definition."""
    exponent, mantissa, *_ = ELEMENTS[element]
    codes = np.arange(1 << (1 + exponent + mantissa))
    scale = Shared("scale", np.full((1, codes.size), 127), 8)
    return torch.from_numpy(MXFP(element, 1).decode(Encoded(codes, (scale,))))  # type: ignore[arg-type]


def unpacked(weight: MXFloats) -> Tensor:
    """The codes, one per byte."""
    if not weight.halves:
        return weight.codes
    halves = torch.stack((weight.codes & 15, weight.codes >> 4), -1)
    return halves.reshape(weight.codes.shape[0], -1)[:, : weight.columns]


def by_torch(weight: MXFloats, dtype: torch.dtype) -> Tensor:
    """The values, by a table and torch ops."""
    rows, groups = weight.exponents.shape
    values = table(weight.element).to(weight.codes.device)[unpacked(weight).int()]
    wide = torch.nn.functional.pad(values, (0, groups * BLOCK - weight.columns)).reshape(rows, groups, BLOCK)
    scale = torch.where(weight.exponents == 0, 0x00400000, weight.exponents.int() << 23).view(torch.float32)
    unpacked_values = (wide * scale[..., None]).reshape(rows, -1)[:, : weight.columns]
    largest = torch.finfo(dtype).max
    return unpacked_values.clamp(-largest, largest).to(dtype)


@jit
def _value(code, SIGN: tl.constexpr, LEFT: tl.constexpr, FACTOR: tl.constexpr):
    """The minifloat of a code."""
    size = ((code & (SIGN - 1)) << LEFT).to(tl.float32, bitcast=True) * FACTOR
    return tl.where((code & SIGN) != 0, -size, size)


@jit
def _values(
    codes, exponents, out, rows, columns, groups, across, largest,
    BLOCK: tl.constexpr, COUNT: tl.constexpr, HALVES: tl.constexpr, SIGN: tl.constexpr, LEFT: tl.constexpr,
    FACTOR: tl.constexpr,
):  # fmt: skip
    """COUNT blocks of 32."""
    group = (tl.program_id(0) * COUNT + tl.arange(0, COUNT)[:, None]).to(tl.int64)
    in_range = group < rows * groups
    row, start = group // groups, (group % groups) * BLOCK
    scale = _power(tl.load(exponents + group, mask=in_range, other=127))
    inner = tl.arange(0, BLOCK)[None, :]
    if HALVES:
        half = tl.arange(0, BLOCK // 2)[None, :]
        there = in_range & (start // 2 + half < across)
        byte = tl.load(codes + row * across + start // 2 + half, mask=there, other=0).to(tl.int32)
        value = tl.interleave(_value(byte & 15, SIGN, LEFT, FACTOR), _value(byte >> 4, SIGN, LEFT, FACTOR))
    else:
        code = tl.load(codes + row * across + start + inner, mask=in_range & (start + inner < columns), other=0)
        value = _value(code.to(tl.int32), SIGN, LEFT, FACTOR)
    value = value * scale
    value = tl.minimum(tl.maximum(value, -largest), largest)
    tl.store(
        out + row * columns + start + inner, value.to(out.dtype.element_ty), mask=in_range & (start + inner < columns)
    )


CONFIGS: list[Config] = [{"count": c, "num_warps": w} for c, w in ((64, 4), (128, 4), (128, 8), (32, 4), (32, 2))]


def by_triton(weight: MXFloats, dtype: torch.dtype) -> Tensor:
    """The values by Triton."""
    exponent, mantissa, *_ = ELEMENTS[weight.element]
    rows, groups = weight.exponents.shape
    out = torch.empty(rows, weight.columns, dtype=dtype, device=weight.codes.device)
    fixed: dict[str, Any] = {"BLOCK": BLOCK, "HALVES": weight.halves, "SIGN": 1 << (weight.bits - 1),
                             "LEFT": 23 - mantissa, "FACTOR": 2.0 ** (128 - 2 ** (exponent - 1))}  # fmt: skip

    def _launch(c: Config) -> None:
        _values[(-(-rows * groups // c["count"]),)](
            weight.codes, weight.exponents, out, rows, weight.columns, groups, weight.codes.shape[1],
            torch.finfo(dtype).max, COUNT=c["count"], num_warps=c["num_warps"], **fixed,
        )  # fmt: skip

    if out.numel():
        key = f"mxfp_{weight.element}|{dtype}|{bucket(n=rows * groups)}"
        _launch(tuned(key, weight.codes.device.type, CONFIGS, _launch))
    return out


def by_numba(weight: MXFloats, dtype: torch.dtype) -> Tensor:
    """The values by a loop on the CPU, in one pass."""
    from espalier.kernels.fake_quant.chunks import over_rows
    from espalier.kernels.fake_quant.cpu import words
    from espalier.kernels.fake_quant.loops import mx

    out = torch.empty(weight.codes.shape[0], weight.columns, dtype=dtype)
    parameters = table(weight.element).numpy(), weight.halves, np.int64(BLOCK)
    over_rows(mx.looked_up, weight.codes.numpy(), weight.exponents.numpy(), words(out).reshape(out.shape), parameters)
    return out


def random_floats(rows: int, columns: int, element: str, device: str, seed: int) -> MXFloats:
    """Random finite codes, with scales from 2^−27 to 2^3."""
    generator = torch.Generator(device).manual_seed(seed)
    numbers = torch.from_numpy(np.flatnonzero(np.isfinite(table(element).numpy()))).to(device, torch.uint8)
    allowed = numbers[(numbers & (len(table(element)) // 2 - 1)) <= MXFP(element).grid.top]
    step = max((1 << 24) // max(columns, 1), 1)
    parts = [
        allowed[torch.randint(len(allowed), (min(step, rows - i), columns), generator=generator, device=device)]
        for i in range(0, rows, step)
    ]
    codes = torch.cat(parts)
    exponents = torch.randint(100, 131, (rows, -(-columns // BLOCK)), generator=generator, device=device)
    if element == "e2m1":
        wide = torch.nn.functional.pad(codes, (0, columns % 2))
        codes = wide[:, 0::2] | (wide[:, 1::2] << 4)
    return MXFloats(codes, exponents.to(torch.uint8), columns, element)


def _inputs(element: str) -> Any:
    def make(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
        return random_floats(shape["rows"], shape["columns"], element, device, seed), dtype

    return make


def _bytes(element: str) -> Any:
    half = 2 if element == "e2m1" else 1

    def traffic(shape: Shape, size: int) -> int:
        rows, columns = shape["rows"], shape["columns"]
        return rows * (-(-columns // half) + -(-columns // BLOCK) + columns * size)

    return traffic


def _kernel(element: str) -> Kernel:
    bits = 1 + sum(ELEMENTS[element][:2])
    return Kernel(
        name=f"mxfp{bits}_{element}_dequantize",
        title=f"MXFP{bits} {element.upper()} to float",
        about="Dequantises minifloats with an exponent byte per 32. Limited by memory.",
        formula="y = minifloat(code)·2^(s − 127)",
        family="Back to float",
        dims=("rows", "columns"),
        inputs=_inputs(element),
        reference=by_torch,
        versions=(
            Version("torch", by_torch, "a table and torch ops"),
            Version("triton", by_triton, "bits moved into a float32, one pass", ("cuda",), ("triton",),
                    shows=(_value, _values)),
            Version("numba", by_numba, "a table, one pass on the CPU", ("cpu",), ("numba",)),
        ),
        flops=lambda s: s["rows"] * s["columns"],
        traffic=_bytes(element),
        shapes={
            "cpu": ({"rows": 768, "columns": 3072},),
            "cuda": ({"rows": 16384, "columns": 16384},),
        },
        sweep={
            "cpu": tuple({"rows": r, "columns": 1024} for r in (16, 64, 256, 1024)),
            "cuda": tuple({"rows": r, "columns": 8192} for r in (64, 256, 1024, 4096, 16384)),
        },
        tolerance={"float32": 0.0, "bfloat16": 0.0, "float16": 0.0},
    )  # fmt: skip


KERNELS = [add(_kernel(element)) for element in ELEMENTS]
