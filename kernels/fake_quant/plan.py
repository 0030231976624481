"""What a fast version of a format consists of: the name of a loop, its constants, and which elements lie together.

Plans are values; backends (cpu, cuda) know the loops by name. The plain reference is the format's own `define`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from model.formats.base import Format
from model.formats.blocks import Blocks

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from model.formats.base import Array

F = TypeVar("F", bound=Format)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One loop with its constants (numpy scalars and arrays, so that their types are fixed).

    `blocks`: how the tensor is cut, for loops over blocks. `per`: for loops with scales, what shares one
    (model.formats.scaled); `shared` gives the arrays, one number a stretch, that the loop takes for a given scale, and
    `own` says whether it finds a tensor's own.
    """

    loop: str
    constants: tuple[Any, ...]
    blocks: Blocks | None = None
    per: int | None = None
    shared: Callable[[Tensor], tuple[Array, ...]] | None = None
    own: bool = True


Maker = Callable[[Any, "torch.dtype"], "Plan | None"]
PLANS: dict[type[Format], Maker] = {}


def planned(kind: type[F]) -> Callable[[Callable[[F, torch.dtype], Plan | None]], Maker]:
    """Register the maker of plans for a format: (format, dtype of the tensor) → Plan, None where only the definition
    will do."""

    def add(maker: Callable[[F, torch.dtype], Plan | None]) -> Maker:
        PLANS[kind] = maker
        return maker

    return add


@lru_cache(maxsize=1024)
def plan_of(fmt: Format, dtype: torch.dtype) -> Plan | None:
    """The plan of a format for tensors of `dtype`, made once."""
    return PLANS[type(fmt)](fmt, dtype)
