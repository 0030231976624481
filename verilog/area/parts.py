"""What modules consist of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parts:
    """`lut`, `ff`: parts by name, each counted in tables or registers as a first guess; blocks exactly."""

    lut: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    ff: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    dsp: int = 0
    bram: int = 0


PARTS: dict[str, Callable[[Mapping[str, int]], Parts]] = {}
