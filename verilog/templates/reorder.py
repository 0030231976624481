"""Reorder: the beats of a frame in another order; pick: a periodic selection of beats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.model.errors import EmitError
from espalier.verilog.design.address_loops import AddressLoops, as_loops
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Reorder(Template):
    """`beats[q]`: the input beat that is output as beat q, of a frame or of each part of it. Two banks.

    A part has `part` beats, by default as many as are output. Beats may be output several times, or never.
    """

    beats: np.ndarray
    part: int = 0

    @property
    def _part(self) -> int:
        return self.part or len(self.beats)

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "reorder"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("walk",)

    def parameters(self) -> dict[str, int]:
        """Beat width, beats of a bank, and the loops of the read address."""
        return {"W": self.inputs[0].width, "BEATS": self._part, **self._walk().parameters("R")}

    def _walk(self) -> AddressLoops:
        loops = as_loops(self.beats)
        if loops is None:
            text = f"{self.node} reads elements in an order that six nested loops cannot address."
            raise EmitError(text, "Use transposes, views and slices only.", self.node)
        return loops

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Beats in their new order."""
        x, y = self.inputs[0], self.outputs[0]
        beats = codes[0].reshape(-1, self._part, x.par)[:, self.beats]
        return (beats.reshape(-1, y.rows, y.size),)

    def engines(self) -> tuple[Engine, ...]:
        """A bank is written, then read, while the other one is."""
        return bank_engines(self.inputs[0].beats, self._part, len(self.beats), 1)

    def buffers(self) -> dict[str, int]:
        """Both banks."""
        return {"full": 2, "free": 2}

    def primed(self) -> dict[str, int]:
        """Both are initially free."""
        return {"free": 2}


def bank_engines(came: int, part: int, leave: int, depth: int) -> tuple[Engine, ...]:
    """The engines of two banks: each `part` of the `came` input beats of a frame becomes `leave` output beats."""
    into, out = np.arange(came) % part, np.arange(came // part * leave) % leave
    return (
        Engine({"x": into >= 0, "free": into == 0}, {"full": into == part - 1}, 1),
        Engine({"full": out == 0}, {"y": out >= 0, "free": out == leave - 1}, depth),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Pick(Template):
    """Of every `period` beats, the `count` beats from `start` on; one row per beat."""

    period: int
    start: int
    count: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "pick"

    def parameters(self) -> dict[str, int]:
        """Beat width and the selection."""
        return {"W": self.inputs[0].width, "PERIOD": self.period, "START": self.start, "COUNT": self.count}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The selected beats."""
        x, y = self.inputs[0], self.outputs[0]
        return (codes[0].reshape(-1, x.beats, x.par)[:, self._selected()].reshape(-1, y.rows, y.size),)

    def _selected(self) -> np.ndarray:
        position = np.arange(self.inputs[0].beats) % self.period
        return (position >= self.start) & (position < self.start + self.count)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        selected = self._selected()
        return (Engine({"x": np.ones(len(selected), bool)}, {"y": selected}, 1),)
