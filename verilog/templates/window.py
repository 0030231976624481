"""Window: the elements under each position of a sliding kernel, for convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes

DEPTH = 2  # cycles from the ring buffer to the output
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Walk:
    """Geometry of a sliding kernel: image and result sizes, and kernel, stride, dilation and padding by axis."""

    image: Pair
    out: Pair
    kernel: Pair
    step: Pair = (1, 1)
    gap: Pair = (1, 1)
    before: Pair = (0, 0)  # padding above and left of the image

    @property
    def pixels(self) -> int:
        """Pixels of the image."""
        return self.image[0] * self.image[1]

    @property
    def places(self) -> int:
        """Positions of the kernel, the pixels of the result."""
        return self.out[0] * self.out[1]

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def ring(self) -> int:
        """Rows of the ring buffer: those under the kernel and those that arrive meanwhile."""
        return min((self.kernel[0] - 1) * self.gap[0] + 1 + self.step[0], self.image[0])

    def under(self) -> Codes:
        """The pixel under each tap [positions, taps], −1 outside the image."""
        rows, columns = (self._along(axis) for axis in (0, 1))
        inside = (rows[:, None, :, None] >= 0) & (columns[None, :, None, :] >= 0)
        pixel = rows[:, None, :, None] * self.image[1] + columns[None, :, None, :]
        return np.where(inside, pixel, -1).reshape(self.places, self.taps)

    def _along(self, axis: int) -> Codes:
        """Positions along one axis [out, kernel], −1 outside the image."""
        at = np.arange(self.out[axis])[:, None] * self.step[axis] - self.before[axis]
        at = at + np.arange(self.kernel[axis]) * self.gap[axis]
        return np.where((at >= 0) & (at < self.image[axis]), at, -1)

    def _last(self, axis: int, position: int) -> int:
        last = position * self.step[axis] - self.before[axis] + (self.kernel[axis] - 1) * self.gap[axis]
        return min(last, self.image[axis] - 1)

    def needed(self, row: int, column: int) -> int:
        """Pixels that must have arrived before the window at (row, column) is output."""
        return self._last(0, row) * self.image[1] + self._last(1, column) + 1

    def limit(self, row: int) -> int:
        """Pixels that may have arrived while the windows of an output row are output."""
        if self.ring >= self.image[0]:
            return self.pixels
        return min((row * self.step[0] - self.before[0] + self.ring) * self.image[1], self.pixels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Window(Template):
    """Rows of the result are kernel positions × groups; a row has, tap by tap, the channels of its group."""

    walk: Walk
    groups: int = 1
    pad: int = 0  # code of the padding

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "window"

    @property
    def _blocks(self) -> int:
        return self.inputs[0].size // self.inputs[0].par

    def parameters(self) -> dict[str, int]:
        """The geometry and the beats per pixel."""
        w, x = self.walk, self.inputs[0]
        return {
            "IN_H": w.image[0], "IN_W": w.image[1], "OUT_H": w.out[0], "OUT_W": w.out[1], "BLOCKS": self._blocks,
            "GROUPS": self.groups, "K_H": w.kernel[0], "K_W": w.kernel[1], "STEP_H": w.step[0], "STEP_W": w.step[1],
            "GAP_H": w.gap[0], "GAP_W": w.gap[1], "TOP": w.before[0], "LEFT": w.before[1], "RING_ROWS": w.ring,
            "LANES": x.par, "W": x.fixed.width, "PAD": self.pad % (1 << x.fixed.width),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The elements at each position, group by group, tap by tap."""
        x, under, per = self.inputs[0], self.walk.under(), self.inputs[0].size // self.groups
        padded = np.concatenate([codes[0], np.full((len(codes[0]), 1, x.size), self.pad)], axis=1)
        windows = padded[:, under].reshape(len(padded), self.walk.places, self.walk.taps, self.groups, per)
        return (windows.transpose(0, 1, 3, 2, 4).reshape(len(padded), -1, self.walk.taps * per),)

    def engines(self) -> tuple[Engine, ...]:
        """Beats are taken while the ring has room, and output once a window is complete; both can be in one step."""
        takes: list[np.ndarray] = []
        gives: list[np.ndarray] = []
        total, per_window, arrived = self.walk.pixels * self._blocks, self.walk.taps * self._blocks, 0

        def steps(count: int, taking: int, giving: bool) -> None:
            takes.append(np.arange(count) < taking)
            gives.append(np.full(count, giving))

        for row in range(self.walk.out[0]):
            limit = self.walk.limit(row) * self._blocks
            for column in range(self.walk.out[1]):
                needed = max(self.walk.needed(row, column) * self._blocks - arrived, 0)
                steps(needed, needed, False)
                arrived += needed
                also = min(per_window, max(limit - arrived, 0))
                steps(per_window, also, True)
                arrived += also
        steps(total - arrived, total - arrived, False)
        return (Engine({"x": np.concatenate(takes)}, {"y": np.concatenate(gives)}, DEPTH),)
