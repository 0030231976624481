"""FIFO: buffers beats, such as on the shorter of two branches that join again."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes

DEEP = 64  # depth from which a FIFO is a RAM with an output register


@dataclass(frozen=True, kw_only=True, eq=False)
class Fifo(Template):
    """A FIFO of `depth` beats; a beat can be read in the cycle after it was written.

    If `registered`, its output register adds a cycle and holds one more beat.
    """

    depth: int
    registered: bool = False

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "fifo_ram" if self.registered else "fifo"

    def parameters(self) -> dict[str, int]:
        """Beat width and depth."""
        return {"W": self.inputs[0].width, "DEPTH": self.depth}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The input."""
        return (codes[0],)

    def engines(self) -> tuple[Engine, ...]:
        """None: the schedule models it as a channel of `depth` beats."""
        return ()
