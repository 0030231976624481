"""Fork: one stream for several readers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Engine, Template, port
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Fork(Template):
    """Each reader takes a beat when it is ready; the next follows when all have taken it. Without latency."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "fork_stream"

    def parameters(self) -> dict[str, int]:
        """Beat width and readers."""
        return {"W": self._stream.width, "N": len(self.outputs)}

    @property
    def _stream(self) -> Stream:
        return self.inputs[0]

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Copies."""
        return (codes[0],) * len(self.outputs)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle, without latency."""
        always = np.ones(self._stream.beats, bool)
        return (Engine({"x": always}, {port("y", k): always for k in range(len(self.outputs))}, 0),)
