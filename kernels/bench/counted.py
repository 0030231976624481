"""FLOPs and bytes of a kernel as formulas, from its counts evaluated on symbols."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from espalier.kernels.bench.spec import Kernel, Version

SWITCHES = ("causal", "mask")  # dimensions that are 0 or 1


def flops_formula(kernel: Kernel) -> str:
    """FLOPs as a formula such as `5·m·n`; empty if the count is not symbolic."""
    return _formula(kernel, lambda sizes, _: kernel.flops(sizes))


def bytes_formula(kernel: Kernel, version: Version | None = None) -> str:
    """Bytes as a formula such as `2·e·m·n`, e the bytes of an element: the least possible, or those of a version."""
    count = version.traffic if version and version.traffic else kernel.traffic
    return _formula(kernel, count)


def _formula(kernel: Kernel, count: Callable[[Any, Any], Any]) -> str:
    import sympy

    sizes: dict[str, Any] = {d: 0 if d in SWITCHES else sympy.Symbol(d, integer=True, positive=True)
                             for d in kernel.dims}  # fmt: skip
    try:
        formula = sympy.expand(count(sizes, sympy.Symbol("e", integer=True, positive=True)))
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return ""
    above = formula.replace(
        sympy.floor, lambda a: -sympy.ceiling(-a) if a.could_extract_minus_sign() else sympy.floor(a)
    )
    return _formula_text(str(above))


def _formula_text(text: str) -> str:
    """`2*n**2*ceiling(k/32)` → `2·n²·⌈k/32⌉`."""
    text = re.sub(r"\*\*(\d)", lambda m: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(m[1])], text).replace("*", "·")
    text = re.sub(r"ceiling\(([^()]*)\)", r"⌈\1⌉", text)
    return re.sub(r"floor\(([^()]*)\)", r"⌊\1⌋", text).replace("-", "−")
