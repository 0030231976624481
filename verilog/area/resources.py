"""What a module takes of an FPGA, as one value that can be summed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Area:
    """Resources of a module on a 7-series FPGA: look-up tables, flip-flops, DSP blocks, 18-kbit block RAMs.

    `unknown`: modules of which there is no estimate; the figures are of the others then.
    """

    lut: float = 0.0
    ff: float = 0.0
    dsp: int = 0
    bram: int = 0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Area) -> Area:
        unknown = tuple(dict.fromkeys((*self.unknown, *other.unknown)))
        return Area(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.bram + other.bram, unknown)

    def figures(self) -> dict[str, int | None]:
        """By name, in whole numbers; None where something in the sum is not known."""
        found = {"lut": round(self.lut), "ff": round(self.ff), "dsp": self.dsp, "bram": self.bram}
        return {name: None if self.unknown else count for name, count in found.items()}

    def told(self) -> dict[str, Any]:
        """Those of a sum: what is not known in it, and what the rest takes."""
        if not self.unknown:
            return {**self.figures()}
        return {**self.figures(), "unknown": list(self.unknown), "rest": replace(self, unknown=()).figures()}
