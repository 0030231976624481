"""Source: a constant tensor from a memory as a stream, the same in every frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Source(Template):
    """Outputs `codes` [rows, size] repeatedly."""

    codes: Codes

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "source"

    @property
    def _beats(self) -> Codes:
        """The beats of a frame; a single one if all are equal."""
        beats = self.outputs[0].pack(self.codes[None])
        return beats[:1] if (beats == beats[:1]).all() else beats

    def parameters(self) -> dict[str, int]:
        """Beat width and stored beats."""
        return {"W": self.outputs[0].width, "BEATS": len(self._beats)}

    def memories(self) -> tuple[Memory, ...]:
        """The beats."""
        return (Memory("D_FILE", self._beats, self.outputs[0].fixed.width),)

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """One frame, for all frames."""
        return (self.codes[None],)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        return (Engine({}, {"y": np.ones(self.outputs[0].beats, bool)}, 1),)
