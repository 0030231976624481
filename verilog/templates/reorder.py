"""Reorder: the beats of a frame in another order; pick: some of the beats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.model.errors import EmitError
from espalier.verilog.design.address_loops import AddressLoops, as_loops
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Reorder(Template):
    """`beats[q]`: which beat that came leaves as beat q, of a frame or of each part of it. Two banks.

    A part is `part` beats, where given; else as many as leave. Beats may leave several times, or not at all.
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
        """Modules below it."""
        return ("walk",)

    def parameters(self) -> dict[str, int]:
        """Width and number of the beats of a bank, and the loops of reading."""
        return {"W": self.inputs[0].width, "BEATS": self._part, **self._walk().parameters("R")}

    def _walk(self) -> AddressLoops:
        found = as_loops(self.beats)
        if found is None:
            text = f"{self.node} reads elements in an order that no six nested loops give."
            raise EmitError(text, "Use transposes, views and slices only.", self.node)
        return found

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Beats by their new places."""
        x, y = self.inputs[0], self.outputs[0]
        beats = codes[0].reshape(-1, self._part, x.par)[:, self.beats]
        return (beats.reshape(-1, y.rows, y.size),)

    def engines(self) -> tuple[Engine, ...]:
        """A bank is written, then read, while the other one is."""
        return banked(self.inputs[0].beats, self._part, len(self.beats), 1)

    def buffers(self) -> dict[str, int]:
        """Both banks."""
        return {"full": 2, "free": 2}

    def primed(self) -> dict[str, int]:
        """Both are free at the start."""
        return {"free": 2}


def banked(came: int, part: int, leave: int, depth: int) -> tuple[Engine, ...]:
    """The engines of two banks: of the `came` beats of a frame each `part` become `leave`."""
    into, out = np.arange(came) % part, np.arange(came // part * leave) % leave
    return (
        Engine({"x": into >= 0, "free": into == 0}, {"full": into == part - 1}, 1),
        Engine({"full": out == 0}, {"y": out >= 0, "free": out == leave - 1}, depth),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Pick(Template):
    """Of every `period` beats `count`, from `start` on; one row a beat."""

    period: int
    start: int
    count: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "pick"

    def parameters(self) -> dict[str, int]:
        """Width and the beats that stay."""
        return {"W": self.inputs[0].width, "PERIOD": self.period, "START": self.start, "COUNT": self.count}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The beats that stay."""
        x, y = self.inputs[0], self.outputs[0]
        return (codes[0].reshape(-1, x.beats, x.par)[:, self._kept()].reshape(-1, y.rows, y.size),)

    def _kept(self) -> np.ndarray:
        place = np.arange(self.inputs[0].beats) % self.period
        return (place >= self.start) & (place < self.start + self.count)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle."""
        kept = self._kept()
        return (Engine({"x": np.ones(len(kept), bool)}, {"y": kept}, 1),)
