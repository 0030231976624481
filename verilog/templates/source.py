"""Source: a constant tensor as a stream, the same in every frame, from a memory of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Source(Template):
    """`codes` [rows, size], which leave again and again."""

    codes: Codes

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "source"

    @property
    def _beats(self) -> Codes:
        """The beats of a frame; one where all are equal."""
        beats = self.outputs[0].pack(self.codes[None])
        return beats[:1] if (beats == beats[:1]).all() else beats

    def parameters(self) -> dict[str, int]:
        """Width of a beat, and how many are held."""
        return {"W": self.outputs[0].width, "BEATS": len(self._beats)}

    def memories(self) -> tuple[Memory, ...]:
        """The beats."""
        return (Memory("D_FILE", self._beats, self.outputs[0].fixed.width),)

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """One frame; all are as this one."""
        return (self.codes[None],)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle."""
        return (Engine({}, {"y": np.ones(self.outputs[0].beats, bool)}, 1),)
