"""Fake quantisation: the fast version of each number format against its definition, which is bit-identical."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from espalier.kernels.bench.spec import Inputs, Kernel, Shape, Version, add
from espalier.kernels.registry import BACKENDS, install
from espalier.model.formats.base import FAST, Format, parse_format

# Formats with default parameters, then parameters that select other kernels.
FORMATS = {
    "integer": "integer(width=8, frac_width=4)",
    "minifloat_ieee": "minifloat_ieee(width=8, exponent_width=4)",
    "minifloat_denorm": "minifloat_denorm",
    "log": "log",
    "binary": "binary",
    "block_fp": "block_fp",
    "block_minifloat": "block_minifloat",
    "block_log": "block_log",
    "mxint": "mxint",
    "mxfp": "mxfp",
    "nvfp4": "nvfp4",
    "scaled_integer": "scaled_integer(granularity=channel)",
    "binary_scaled": "binary_scaled",
    "binary_residual": "binary_residual",
    "ternary": "ternary",
}


def define(fmt: Format, x: Tensor) -> Tensor:
    """The definition, op by op in torch."""
    return fmt.define(x)


def fast(fmt: Format, x: Tensor) -> Tensor:
    """The version in use: numba on the CPU, Triton on a GPU."""
    _installed()
    implementation = FAST.find((type(fmt), x.device.type))
    if implementation is None:
        raise RuntimeError(f"no fast version of {fmt.name} for {x.device.type}")
    return implementation.value(fmt, x, None)


@cache
def _installed() -> None:
    install()


def _inputs(text: str) -> Any:
    def make(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
        generator = torch.Generator(device).manual_seed(seed)
        x = torch.randn(shape["rows"], shape["columns"], generator=generator, device=device)
        return parse_format(text), (x * 0.5).to(dtype)

    return make


def _refuses(text: str) -> Any:
    """A `refuses` function: the reason why a format has no fast version on a device."""

    def reason(shape: Shape, dtype: str, device: str) -> str:
        compiler, _ = BACKENDS[device]
        if find_spec(compiler) is None:
            return f"{compiler} is not installed"
        if device == "cpu":
            return ""
        from espalier.kernels.fake_quant.cuda import has_kernel

        return "" if has_kernel(parse_format(text)) else "no Triton kernel: its definition runs on the GPU"

    return reason


def _kernel(name: str, text: str) -> Kernel:
    fmt = parse_format(text)
    return Kernel(
        name=f"fake_quant_{name}",
        title=f"Fake quantisation, {fmt.title}",
        about=f"A tensor's values in {fmt.label}. Limited by memory: one read, one write.",
        formula=fmt.formula,
        family="Fake quantisation",
        dims=("rows", "columns"),
        inputs=_inputs(text),
        reference=define,
        versions=(
            Version("torch", define, "the definition in torch ops", shows=(type(fmt).define,)),
            Version("fast", fast, "numba or Triton, one pass", refuses=_refuses(text)),
        ),
        flops=lambda s: s["rows"] * s["columns"],
        traffic=lambda s, size: 2 * s["rows"] * s["columns"] * size,
        shapes={"cpu": ({"rows": 768, "columns": 3072},), "cuda": ({"rows": 16384, "columns": 16384},)},
        sweep={
            "cpu": tuple({"rows": r, "columns": 1024} for r in (16, 64, 256, 1024)),
            "cuda": tuple({"rows": r, "columns": 8192} for r in (64, 256, 1024, 4096, 16384)),
        },
        tolerance={"float32": 0.0, "bfloat16": 0.0, "float16": 0.0},
    )


KERNELS = [add(_kernel(name, text)) for name, text in FORMATS.items()]
