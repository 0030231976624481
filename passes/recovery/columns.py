"""A matrix in a number format column by column, under scales that were fixed before: what GPTQ asks of a format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from espalier.model.formats.base import Format
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger

Begin = Callable[[int, Tensor], None]
At = Callable[[int, Tensor], Tensor]
ScaleOf = Callable[[ScaledFormat, Tensor], Tensor]
# Formats whose value of an element hangs on nothing but the element and its scale.
_BY_ELEMENT = (ScaledInteger, BinaryScaled, BinaryResidual)


@dataclass(frozen=True, slots=True)
class Columns:
    """`group`: columns that share a field, 0 where none do within a row.

    `begin(first, now)`: the columns from `first` on are about to be quantised; `now` is the matrix [rows, columns] as
    it stands, whose group sets the scale. `at(column, x)`: x [rows] in the format, as that column.
    """

    group: int
    begin: Begin
    at: At
    scale: Tensor | None = None


def _nothing(first: int, now: Tensor) -> None:
    pass


def columns_of(fmt: Format, matrix: Tensor, given: Tensor | None, scale_of: ScaleOf, transposed: bool) -> Columns:
    """How `matrix` [outputs, inputs] takes `fmt`, whose rows are the inputs where `transposed`.

    `given`: a scale that holds; else `scale_of` finds those of a ScaledFormat, and they are in `scale` in the end.
    """
    if not fmt.rowwise:
        return Columns(0, _nothing, lambda _, x: fmt.forward(x[:, None])[:, 0])
    if isinstance(fmt, ScaledFormat):
        scale = (scale_of(fmt, matrix.T if transposed else matrix) if given is None else given).float().clone()
        if transposed:
            return Columns(0, _nothing, lambda j, x: fmt.forward_with(x[None], _row(fmt, scale, j))[0], scale)
        if not isinstance(fmt, _BY_ELEMENT):
            return _in_place(lambda x: fmt.forward_with(x, scale), matrix, scale)
        return _scaled(fmt, scale, given is None, scale_of)
    if isinstance(fmt, BlockFormat):
        return Columns(0, _nothing, _block_rows(fmt, matrix)) if transposed else _blocks(fmt, matrix)
    turned = (lambda x: fmt.forward(x.T).T) if transposed else fmt.forward
    return _in_place(turned, matrix, None)


def _in_place(value: Callable[[Tensor], Tensor], matrix: Tensor, scale: Tensor | None) -> Columns:
    """A format that sees the whole row: the column takes its place in the matrix as it was."""

    def at(j: int, x: Tensor) -> Tensor:
        tried = matrix.clone()
        tried[:, j] = x
        return value(tried)[:, j]

    return Columns(0, _nothing, at, scale)


def _row(fmt: ScaledFormat, scale: Tensor, row: int) -> Tensor:
    """The scale of one row."""
    return scale if fmt.scale_shape((2, 4)) == fmt.scale_shape((6, 8)) else scale[..., row : row + 1, :]


def _scaled(fmt: ScaledFormat, scale: Tensor, fresh: bool, scale_of: ScaleOf) -> Columns:
    """A scale a tensor, a row, or a group, which is found anew when its columns come up."""
    group = max(cast("Any", fmt).per, 0) if isinstance(fmt, ScaledInteger) else 0  # a tensor and a row: below 1
    if not group:
        return Columns(0, _nothing, lambda _, x: fmt.forward_with(x[:, None], scale)[:, 0], scale)

    def begin(first: int, now: Tensor) -> None:
        place = slice(first // group, first // group + 1)
        scale[..., place] = scale_of(fmt, now[:, first : first + group])

    def at(j: int, x: Tensor) -> Tensor:
        return fmt.forward_with(x[:, None], scale[..., j // group : j // group + 1])[:, 0]

    return Columns(group, begin if fresh else _nothing, at, scale)


def _blocks(fmt: BlockFormat, matrix: Tensor) -> Columns:
    """The field of a block follows from its largest magnitude, which stands beside the column as a witness of it."""
    group, down = fmt.blocks.block, fmt.blocks.rows
    rows, wide = matrix.shape[0], min(max(group, 2), 1 << 10)
    most = float(matrix.abs().max()) if matrix.numel() else 0.0
    tops = torch.stack([_top(part, down) for part in matrix.split(group, 1)], 1)

    def begin(first: int, now: Tensor) -> None:
        tops[:, first // group] = _top(now[:, first : first + group], down)

    def at(j: int, x: Tensor) -> Tensor:
        top = tops[:, j // group].clamp(max=most)
        tried = torch.zeros(-(-rows // down) * down + down, wide if group > 1 else 1)
        tried[:rows, 0] = top
        tried[-1, 0] = most  # formats with a scale of the tensor
        tried[:rows, min(1, group - 1)] = (
            torch.minimum(torch.maximum(x, -top), top) if group > 1 else x.clamp(-most, most)
        )
        return fmt.forward(tried)[:rows, min(1, group - 1)]

    return Columns(group, begin, at)


def _top(part: Tensor, down: int) -> Tensor:
    """The largest magnitude of the tile that each row is in: [rows]."""
    top = part.abs().amax(1)
    return torch.cat([t.amax().expand(len(t)) for t in top.split(down)]) if down > 1 else top


def _block_rows(fmt: BlockFormat, matrix: Tensor) -> At:
    """Blocks along the outputs: a column is a row of the format, beside one with the largest magnitude of all."""
    most, down = float(matrix.abs().max()) if matrix.numel() else 0.0, fmt.blocks.rows

    def at(_: int, x: Tensor) -> Tensor:
        tried = torch.zeros(2 * down, len(x))
        tried[0], tried[down, 0] = x.clamp(-most, most), most
        return fmt.forward(tried)[0]

    return cast("At", at)
