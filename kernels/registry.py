"""Registers the fast versions: importing the plans fills `FAST`; backends are imported when a tensor arrives.

Without numba (or triton) nothing is registered for the CPU (or CUDA), and the definitions run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from espalier.kernels.fake_quant.plan import PLANS
from espalier.model.formats.base import FAST, Array, Encoded, Fast, Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.torch.fast_mx import PRODUCTS, VALUES

if TYPE_CHECKING:
    from torch import Tensor

CODES = "espalier.kernels.fake_quant.codes"
BACKENDS = {"cpu": ("numba", "espalier.kernels.fake_quant.cpu"), "cuda": ("triton", "espalier.kernels.fake_quant.cuda")}


@cache
def _backend(name: str) -> ModuleType | None:
    """The backend's module; None where what it needs is there and does not load."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@cache
def fast_version(backend: str) -> Fast:
    """The functions of `Fast`, run by the module `backend`, by the definition where it declines."""

    def value(fmt: Format, x: Tensor, scale: Tensor | None) -> Tensor:
        module = _backend(backend)
        found = module.quantized(fmt, x, False, scale) if module else None
        if found is not None:
            return found[0]
        return fmt.define(x) if scale is None or not isinstance(fmt, ScaledFormat) else fmt.with_scale(x, scale)

    def masked(fmt: Format, x: Tensor) -> tuple[Tensor, Tensor | None]:
        module = _backend(backend)
        found = module.quantized(fmt, x, True, None) if module else None
        return found if found is not None else (fmt.define(x), fmt.inside(x))

    def gradient(grad: Tensor, gate: Tensor, alone: bool) -> Tensor:
        module = _backend(backend)
        return module.passed(grad, gate, alone) if module else grad * gate

    def over(fmt: Format, x: Tensor, scale: Tensor | None, gated: bool) -> tuple[Tensor, Tensor | None] | None:
        module = _backend(backend)
        return module.overwritten(fmt, x, scale, gated) if module else None

    if backend != BACKENDS["cpu"][1]:
        return Fast(value, masked, gradient)
    return Fast(value, masked, gradient, *_codes(), over)


def _codes() -> tuple[Callable[[Format, Array], Encoded | None], Callable[[Format, Encoded], Array | None]]:
    """Fast codes, of arrays on the CPU."""

    def encode(fmt: Format, x: Array) -> Encoded | None:
        module = _backend(CODES)
        return module.encoded(fmt, x) if module else None

    def decode(fmt: Format, encoded: Encoded) -> Array | None:
        module = _backend(CODES)
        return module.decoded(fmt, encoded) if module else None

    return encode, decode


@cache
def _mx(name: str, function: str) -> Any:
    """A function of kernels.lab, imported when a tensor arrives."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(name), function)(*arguments)

    return call


def install() -> None:
    """Fill `FAST` for each planned format and each device whose compiler is installed; the same for MX weights.

    Again after a plug-in was loaded, which may have planned a format of its own.
    """
    for device, (compiler, backend) in BACKENDS.items():
        if find_spec(compiler) is not None:
            fast = fast_version(backend)
            for kind in PLANS:
                FAST.add((kind, device), fast, source=PLANS.source(kind))
    if find_spec("numba") is not None:
        VALUES.add("cpu", _mx("espalier.kernels.lab.mx_dequantize", "by_numba"))
    if find_spec("triton") is not None:
        VALUES.add("cuda", _mx("espalier.kernels.lab.mx_dequantize", "values"))
        PRODUCTS.add("cuda", _mx("espalier.kernels.lab.mx_linear", "product_cuda"))
