"""Chain: concatenation of two streams; replay: repetition of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain(Template):
    """In each of `turns` turns per frame, a share of the first stream's beats, then one of the second's."""

    turns: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "chain"

    @property
    def _shares(self) -> tuple[int, int]:
        return self.inputs[0].beats // self.turns, self.inputs[1].beats // self.turns

    def parameters(self) -> dict[str, int]:
        """Beat width, and the beats of a turn."""
        first, second = self._shares
        return {"W": self.inputs[0].width, "A": first, "B": second}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Concatenation turn by turn."""
        parts = [c.reshape(len(c), self.turns, -1) for c in codes]
        y = self.outputs[0]
        return (np.concatenate(parts, axis=2).reshape(-1, y.rows, y.size),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        first, second = self._shares
        which = np.tile(np.arange(first + second) >= first, self.turns)
        return (Engine({"x": ~which, "x1": which}, {"y": np.ones(len(which), bool)}, 1),)


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay(Template):
    """Repeats each frame `times` times."""

    times: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "replay"

    def parameters(self) -> dict[str, int]:
        """Beat width, beats and times."""
        return {"W": self.inputs[0].width, "BEATS": self.inputs[0].beats, "TIMES": self.times}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Repeated frames."""
        return (np.tile(codes[0], (1, self.times, 1)),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle; the first repetition takes the input."""
        steps = np.arange(self.outputs[0].beats)
        return (Engine({"x": steps < self.inputs[0].beats}, {"y": steps >= 0}, 1),)
