"""Window: the elements under each place of a kernel that walks over an image; convolutions and pools begin with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes

DEPTH = 2  # cycles from the ring to the output
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a kernel stands: sizes of the image and of the result, and per axis kernel, stride, dilation, padding."""

    image: Pair
    out: Pair
    kernel: Pair
    step: Pair = (1, 1)
    gap: Pair = (1, 1)
    before: Pair = (0, 0)  # padding above and left of the image

    @property
    def pixels(self) -> int:
        """Of the image."""
        return self.image[0] * self.image[1]

    @property
    def places(self) -> int:
        """Of the kernel: pixels of the result."""
        return self.out[0] * self.out[1]

    @property
    def taps(self) -> int:
        """Of the kernel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def ring(self) -> int:
        """Rows of the image that are held: those under the kernel, and those that come in the meantime."""
        return min((self.kernel[0] - 1) * self.gap[0] + 1 + self.step[0], self.image[0])

    def under(self) -> Codes:
        """[places, taps]: the pixel under each tap, −1 outside the image."""
        rows, columns = (self._along(axis) for axis in (0, 1))
        inside = (rows[:, None, :, None] >= 0) & (columns[None, :, None, :] >= 0)
        pixel = rows[:, None, :, None] * self.image[1] + columns[None, :, None, :]
        return np.where(inside, pixel, -1).reshape(self.places, self.taps)

    def _along(self, axis: int) -> Codes:
        """[out, kernel]: the position along one axis, far below 0 where it is outside."""
        at = np.arange(self.out[axis])[:, None] * self.step[axis] - self.before[axis]
        at = at + np.arange(self.kernel[axis]) * self.gap[axis]
        return np.where((at >= 0) & (at < self.image[axis]), at, -1)

    def _last(self, axis: int, place: int) -> int:
        reach = place * self.step[axis] - self.before[axis] + (self.kernel[axis] - 1) * self.gap[axis]
        return min(reach, self.image[axis] - 1)

    def needed(self, row: int, column: int) -> int:
        """Pixels that must have come before the window at (row, column) is given."""
        return self._last(0, row) * self.image[1] + self._last(1, column) + 1

    def limit(self, row: int) -> int:
        """Pixels that may have come while the windows of an output row are given."""
        if self.ring >= self.image[0]:
            return self.pixels
        return min((row * self.step[0] - self.before[0] + self.ring) * self.image[1], self.pixels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Window(Template):
    """Rows of the result are places × groups of channels; a row holds tap by tap the channels of its group."""

    walk: Walk
    groups: int = 1
    pad: int = 0  # the code outside the image

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "window"

    @property
    def _blocks(self) -> int:
        return self.inputs[0].size // self.inputs[0].par

    def parameters(self) -> dict[str, int]:
        """The geometry, and the beats of a pixel."""
        w, x = self.walk, self.inputs[0]
        return {
            "IN_H": w.image[0], "IN_W": w.image[1], "OUT_H": w.out[0], "OUT_W": w.out[1], "BLOCKS": self._blocks,
            "GROUPS": self.groups, "K_H": w.kernel[0], "K_W": w.kernel[1], "STEP_H": w.step[0], "STEP_W": w.step[1],
            "GAP_H": w.gap[0], "GAP_W": w.gap[1], "TOP": w.before[0], "LEFT": w.before[1], "RING_ROWS": w.ring,
            "LANES": x.par, "W": x.fixed.width, "PAD": self.pad % (1 << x.fixed.width),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The elements of each place, group by group, tap by tap."""
        x, under, per = self.inputs[0], self.walk.under(), self.inputs[0].size // self.groups
        padded = np.concatenate([codes[0], np.full((len(codes[0]), 1, x.size), self.pad)], axis=1)
        taken = padded[:, under].reshape(len(padded), self.walk.places, self.walk.taps, self.groups, per)
        return (taken.transpose(0, 1, 3, 2, 4).reshape(len(padded), -1, self.walk.taps * per),)

    def engines(self) -> tuple[Engine, ...]:
        """Beats are taken while there is room, and given once the whole window is there; both in one step."""
        takes: list[np.ndarray] = []
        gives: list[np.ndarray] = []
        total, each, come = self.walk.pixels * self._blocks, self.walk.taps * self._blocks, 0

        def steps(count: int, taking: int, giving: bool) -> None:
            takes.append(np.arange(count) < taking)
            gives.append(np.full(count, giving))

        for row in range(self.walk.out[0]):
            limit = self.walk.limit(row) * self._blocks
            for column in range(self.walk.out[1]):
                missing = max(self.walk.needed(row, column) * self._blocks - come, 0)
                steps(missing, missing, False)
                come += missing
                also = min(each, max(limit - come, 0))
                steps(each, also, True)
                come += also
        steps(total - come, total - come, False)
        return (Engine({"x": np.concatenate(takes)}, {"y": np.concatenate(gives)}, DEPTH),)
