"""Registration of fast versions: importing the plans fills `FAST`; backends are imported on first use.

Without numba (or triton) nothing is registered for the CPU (or CUDA), so that the definitions run.
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
    """The backend's module; None if its dependency is installed but does not load."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@cache
def fast_version(backend: str) -> Fast:
    """The `Fast` functions of the module `backend`; the definition runs where it returns None."""

    def value(fmt: Format, x: Tensor, scale: Tensor | None) -> Tensor:
        module = _backend(backend)
        result = module.quantize(fmt, x, False, scale) if module else None
        if result is not None:
            return result[0]
        return fmt.define(x) if scale is None or not isinstance(fmt, ScaledFormat) else fmt.with_scale(x, scale)

    def masked(fmt: Format, x: Tensor) -> tuple[Tensor, Tensor | None]:
        module = _backend(backend)
        result = module.quantize(fmt, x, True, None) if module else None
        return result if result is not None else (fmt.define(x), fmt.inside(x))

    def gradient(grad: Tensor, gate: Tensor, exclusive: bool) -> Tensor:
        module = _backend(backend)
        return module.gated_gradient(grad, gate, exclusive) if module else grad * gate

    def over(fmt: Format, x: Tensor, scale: Tensor | None, gated: bool) -> tuple[Tensor, Tensor | None] | None:
        module = _backend(backend)
        return module.quantize_over(fmt, x, scale, gated) if module else None

    if backend != BACKENDS["cpu"][1]:
        return Fast(value, masked, gradient)
    return Fast(value, masked, gradient, *_codes(), over)


def _codes() -> tuple[Callable[[Format, Array], Encoded | None], Callable[[Format, Encoded], Array | None]]:
    """Fast `encode` and `decode` of arrays on the CPU."""

    def encode(fmt: Format, x: Array) -> Encoded | None:
        module = _backend(CODES)
        return module.encoded(fmt, x) if module else None

    def decode(fmt: Format, encoded: Encoded) -> Array | None:
        module = _backend(CODES)
        return module.decoded(fmt, encoded) if module else None

    return encode, decode


@cache
def _mx(name: str, function: str) -> Any:
    """A function of kernels.lab, imported on first use."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(name), function)(*arguments)

    return call


def install() -> None:
    """Fill `FAST` for each format with a plan and each device with a compiler; the same for MX weights.

    Called again after loading a plug-in, which may register plans.
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
