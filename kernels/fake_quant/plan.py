"""Plans of fast formats: the name of a loop, its constants, and the layout of elements.

Plans are values; backends (cpu, cuda) know the loops by name. The plain reference is the format's own `define`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from espalier.kernels.fake_quant.denormals import denormals
from espalier.model.errors import FormatError
from espalier.model.formats.base import Format
from espalier.model.formats.blocks import Blocks
from espalier.model.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from espalier.model.formats.base import Array

NONE = np.empty((0, 0), np.float32)
F = TypeVar("F", bound=Format)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One loop with its constants (numpy scalars, so that their types are fixed).

    `blocks`: division of the tensor, for loops over blocks; `table`: a row per exponent, for codes. `per`: for
    loops with scales, the elements that share one (model.formats.scaled); `shared`: given scale → a row per segment.
    """

    loop: str
    constants: tuple[Any, ...]
    blocks: Blocks | None = None
    per: int | None = None
    shared: Callable[[Tensor], Array] | None = None
    table: Array = field(default_factory=lambda: NONE)


Maker = Callable[[Any, "torch.dtype"], "Plan | None"]
PLANS: Registry[type[Format], Maker] = Registry("fast plan of", FormatError, ("espalier.kernels.fake_quant.plans",))


def register_plan(
    kind: type[F], *, replace: bool = False
) -> Callable[[Callable[[F, torch.dtype], Plan | None]], Maker]:
    """Register a function (format, dtype of the tensor) → Plan for a format; it returns None if only the definition
    can compute. `replace`: override a built-in plan."""
    return PLANS.register(kind, replace=replace)


def plan_of(fmt: Format, dtype: torch.dtype) -> Plan | None:
    """The plan of a format for tensors of `dtype`, cached."""
    return _make_plan(PLANS[type(fmt)], fmt, dtype)


@lru_cache(maxsize=1024)
def _make_plan(maker: Maker, fmt: Format, dtype: torch.dtype) -> Plan | None:
    with denormals():
        return maker(fmt, dtype)
