"""Lines: line buffers that output a whole window per beat, from an image of a pixel per beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.area.resources import Area
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.templates.window import Pair, Walk

DEPTH = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Lines(Template):
    """Rows of the result are kernel positions; a row is one beat with the channels of all taps."""

    walk: Walk
    pad: int = 0  # code of the padding

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "lines"

    @property
    def _along(self) -> Walk:
        """The geometry; an image one pixel wide is transposed, so that its rows have several pixels."""
        return as_row(self.walk)

    def parameters(self) -> dict[str, int]:
        """The geometry, its steps, and the elements of a pixel."""
        w, x = self._along, self.inputs[0]
        ends = last_steps(w)
        return {
            "IN_H": w.image[0], "IN_W": w.image[1], "OUT_H": w.out[0], "OUT_W": w.out[1], "K_H": w.kernel[0],
            "K_W": w.kernel[1], "STEP_H": w.step[0], "STEP_W": w.step[1], "GAP_H": w.gap[0], "GAP_W": w.gap[1],
            "TOP": w.before[0], "LEFT": w.before[1], "STEPS": max(w.pixels, int(ends[-1]) + 1), "FIRST": int(ends[0]),
            "LANES": x.par, "W": x.fixed.width, "PAD": self.pad % (1 << x.fixed.width),
        }  # fmt: skip

    def area(self) -> Area:
        """Area by the number of taps."""
        from espalier.verilog.area.unrolled import lines

        return lines(self.parameters())

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The elements at each position, tap by tap."""
        x = self.inputs[0]
        padded = np.concatenate([codes[0], np.full((len(codes[0]), 1, x.size), self.pad)], axis=1)
        return (padded[:, self.walk.under()].reshape(len(padded), self.walk.places, -1),)

    def engines(self) -> tuple[Engine, ...]:
        """A step per pixel; a window is output with its last one."""
        ends, pixels = last_steps(self._along), self.walk.pixels
        steps = np.arange(max(pixels, int(ends[-1]) + 1))
        return (Engine({"x": steps < pixels}, {"y": np.isin(steps, ends)}, DEPTH),)


def as_row(walk: Walk) -> Walk:
    """Transpose the geometry of a column to that of a row; others stay as they are."""
    if walk.image[1] > 1 or walk.out[1] > 1 or walk.kernel[1] > 1:
        return walk

    def swapped(pair: Pair) -> Pair:
        return pair[1], pair[0]

    return Walk(swapped(walk.image), swapped(walk.out), swapped(walk.kernel), swapped(walk.step), swapped(walk.gap),
                swapped(walk.before))  # fmt: skip


def last_steps(walk: Walk) -> Codes:
    """The step of the last pixel at each position, with rows following each other without a gap."""
    first = [-b + (k - 1) * g for b, k, g in zip(walk.before, walk.kernel, walk.gap, strict=True)]
    rows, columns = (np.arange(n) * s + f for n, s, f in zip(walk.out, walk.step, first, strict=True))
    return (rows[:, None] * walk.image[1] + columns).reshape(-1)


def completes_in_order(walk: Walk) -> bool:
    """Whether each window is complete in a later step than the one before it."""
    flat = as_row(walk)
    ends = last_steps(flat)
    return bool(ends[0] >= 0 and (np.diff(ends) > 0).all() and (flat.kernel[0] == 1 or flat.image[1] * flat.gap[0] > 1))
