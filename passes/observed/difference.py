"""Error metrics between two tensors, accumulated in float64 over batches."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.passes.base import Row
from espalier.passes.observed.chunks import FINITE

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Difference:
    """Error of values y against x, over the elements where x is finite.

    sqnr_db: 10·log10(Σx² / Σ(x − y)²), None without error or signal. cosine: Σxy / √(Σx²·Σy²), None if either is zero.
    Fractions: saturated, beyond the format's range (None without a format); underflow, non-zero x rounded to 0; zeros
    of y.
    """

    sqnr_db: float | None
    max_error: float
    mean_error: float
    saturated: float | None
    zeros: float
    underflow: float
    cosine: float | None

    def row(self) -> Row:
        """As columns of a report."""
        return asdict(self)


class Comparison:
    """Accumulator of a `Difference`."""

    def __init__(self) -> None:
        self.elements = 0
        self._signal = self._noise = self._power = self._product = self._error = self._most = 0.0
        self._zeros = self._lost = self._clipped = 0
        self._ranged = False

    def add(self, x: Tensor, y: Tensor, inside: Tensor | None = None) -> None:
        """Add values `y` of the reference `x`; `inside`: mask of x within the format's range."""
        self._ranged |= inside is not None
        flat_x, flat_y = x.detach().reshape(-1), y.detach().reshape(-1)
        flat = None if inside is None else inside.reshape(-1)
        for start in range(0, flat_x.numel(), _CHUNK):
            part = slice(start, start + _CHUNK)
            self._add(flat_x[part].double(), flat_y[part].double(), None if flat is None else flat[part])

    def add_format(self, fmt: Format, x: Tensor, scale: Tensor | None = None, mask: Tensor | None = None) -> None:
        """Add `x` (in its port's view) rounded by `fmt`, with a given scale if any.

        `mask`: of a pruned weight, for formats that do not map 0 to 0.
        """
        import torch

        with torch.no_grad():
            if scale is not None and isinstance(fmt, ScaledFormat):
                y, inside = fmt.forward_with(x, scale), fmt.inside_with(x, scale)
            else:
                y, inside = fmt.forward(x), fmt.inside(x)
            self.add(x, y if mask is None or fmt.keeps_zero else y * mask, inside)

    def _add(self, x: Tensor, y: Tensor, inside: Tensor | None) -> None:
        finite = x.abs() < FINITE
        if not bool(finite.all()):
            x, y, inside = x[finite], y[finite], None if inside is None else inside[finite]
        if not x.numel():
            return
        error = (y - x).abs_()
        self.elements += x.numel()
        self._signal += float(x.dot(x))
        self._noise += float(error.dot(error))
        self._power += float(y.dot(y))
        self._product += float(x.dot(y))
        self._error += float(error.sum())
        self._most = max(self._most, float(error.max()))
        zero = y == 0
        self._zeros += int(zero.sum())
        self._lost += int((zero & (x != 0)).sum())
        self._clipped += 0 if inside is None else int((~inside).sum())

    def difference(self) -> Difference:
        """The metrics so far."""
        count, lengths = max(self.elements, 1), math.sqrt(self._signal * self._power)
        return Difference(
            10 * math.log10(self._signal / self._noise) if self._noise > 0 and self._signal > 0 else None,
            self._most,
            self._error / count,
            self._clipped / count if self._ranged else None,
            self._zeros / count,
            self._lost / count,
            self._product / lengths if lengths > 0 else None,
        )


def compare(fmt: Format, x: Tensor, scale: Tensor | None = None) -> Difference:
    """Error of `fmt` on `x` (in its port's view), with a given scale if any."""
    comparison = Comparison()
    comparison.add_format(fmt, x, scale)
    return comparison.difference()
