"""Gather: any beats of a frame in any order by a table of addresses, with constant beats for padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.area.memory_contents import table_counts
from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.templates.reorder import bank_engines

DEPTH = 2  # cycles from the table to the output


@dataclass(frozen=True, kw_only=True, eq=False)
class Gather(Template):
    """`beats[q]`: the input beat that is output as beat q; −1: a beat of the code `pad`."""

    beats: np.ndarray
    pad: int = 0

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "gather"

    def parameters(self) -> dict[str, int]:
        """Beats on both sides, and the code of padding."""
        x = self.inputs[0]
        code = self.pad & ((1 << x.fixed.width) - 1)
        return {"LANES": x.par, "W": x.fixed.width, "BEATS": x.beats, "LEAVE": len(self.beats), "PAD": code}

    def memories(self) -> tuple[Memory, ...]:
        """Addresses, with a padding flag as their highest bit."""
        width = max((self.inputs[0].beats - 1).bit_length(), 1)
        words = np.where(self.beats < 0, 1 << width, self.beats)
        return (Memory("T_FILE", words[:, None], width + 1),)

    def content_counts(self) -> dict[str, int]:
        """Tables of the address memory, and whether there is padding."""
        width = max((self.inputs[0].beats - 1).bit_length(), 1)
        counts = table_counts(self.memories()[0].words[:, 0], width + 1)
        return {**counts, "PADS": int((self.beats < 0).any())}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Beats in their new order."""
        x, y = self.inputs[0], self.outputs[0]
        beats = codes[0].reshape(-1, x.beats, x.par)
        padded = np.concatenate([beats, np.full((len(beats), 1, x.par), self.pad)], axis=1)
        return (padded[:, self.beats].reshape(-1, y.rows, y.size),)

    def engines(self) -> tuple[Engine, ...]:
        """A bank is written, then read, while the other one is."""
        return bank_engines(self.inputs[0].beats, self.inputs[0].beats, len(self.beats), DEPTH)

    def buffers(self) -> dict[str, int]:
        """Both banks."""
        return {"full": 2, "free": 2}

    def primed(self) -> dict[str, int]:
        """Both are initially free."""
        return {"free": 2}
