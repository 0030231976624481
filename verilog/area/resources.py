"""FPGA resources of a module as a value that can be summed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Area:
    """Resources of a module on a 7-series FPGA: look-up tables, flip-flops, DSP blocks, 18-kbit block RAMs.

    `unknown`: modules without an estimate, which the numbers leave out.
    """

    lut: float = 0.0
    ff: float = 0.0
    dsp: int = 0
    bram: int = 0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Area) -> Area:
        unknown = tuple(dict.fromkeys((*self.unknown, *other.unknown)))
        return Area(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.bram + other.bram, unknown)

    def counts(self) -> dict[str, int | None]:
        """Whole numbers by name; None where the sum has unknown modules."""
        rounded = {"lut": round(self.lut), "ff": round(self.ff), "dsp": self.dsp, "bram": self.bram}
        return {name: None if self.unknown else count for name, count in rounded.items()}

    def report(self) -> dict[str, Any]:
        """`counts`, with the unknown modules and the counts of the rest where there are any."""
        if not self.unknown:
            return {**self.counts()}
        return {**self.counts(), "unknown": list(self.unknown), "rest": replace(self, unknown=()).counts()}
