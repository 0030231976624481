"""FIFO: beats that wait where a branch is shorter than the one that it meets again."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes

DEEP = 64  # beats from which a FIFO is a block RAM, which is read into a register


@dataclass(frozen=True, kw_only=True, eq=False)
class Fifo(Template):
    """Holds `depth` beats; one can be read in the cycle after it was written.

    Where `registered`, its memory is read into a register, which is a cycle later and holds one beat more.
    """

    depth: int
    registered: bool = False

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "fifo_ram" if self.registered else "fifo"

    def parameters(self) -> dict[str, int]:
        """Width of a beat and depth."""
        return {"W": self.inputs[0].width, "DEPTH": self.depth}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """What comes."""
        return (codes[0],)

    def engines(self) -> tuple[Engine, ...]:
        """None: the schedule knows it as a channel that holds `depth` beats."""
        return ()
