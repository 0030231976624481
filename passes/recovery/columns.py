"""Quantises a matrix column by column under fixed scales, as GPTQ needs it."""

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
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger

Begin = Callable[[int, Tensor], None]
At = Callable[[int, Tensor], Tensor]
ScaleOf = Callable[[ScaledFormat, Tensor], Tensor]
# Formats in which an element's value depends only on the element and its scale.
_BY_ELEMENT = (ScaledInteger, ScaledElement, OffsetInteger, BinaryScaled, BinaryResidual)


@dataclass(frozen=True, slots=True)
class Columns:
    """`group`: number of columns that share a scale or exponent, 0 if none do within a row.

    `begin(first, now)`: set the scale of the group at column `first` from the current matrix `now` [rows, columns].
    `at(column, x)`: x [rows] in the format, as that column.
    """

    group: int
    begin: Begin
    at: At
    scale: Tensor | None = None


def _nothing(first: int, now: Tensor) -> None:
    pass


def columns_of(fmt: Format, matrix: Tensor, fixed: Tensor | None, scale_of: ScaleOf, transposed: bool) -> Columns:
    """The columns of `matrix` [outputs, inputs] in `fmt`, whose rows are the inputs if `transposed`.

    `fixed`: a given scale; otherwise `scale_of` computes those of a ScaledFormat, and `scale` of the result has them.
    """
    if not fmt.rowwise:
        return Columns(0, _nothing, lambda _, x: fmt.forward(x[:, None])[:, 0])
    if isinstance(fmt, ScaledFormat):
        scale = (scale_of(fmt, matrix.T if transposed else matrix) if fixed is None else fixed).float().clone()
        if transposed:
            return Columns(0, _nothing, lambda j, x: fmt.forward_with(x[None], _row(fmt, scale, j))[0], scale)
        if not isinstance(fmt, _BY_ELEMENT):
            return _within_rows(lambda x: fmt.forward_with(x, scale), matrix, scale)
        return _scaled(fmt, scale, fixed is None, scale_of)
    if isinstance(fmt, BlockFormat):
        return Columns(0, _nothing, _block_rows(fmt, matrix)) if transposed else _blocks(fmt, matrix)
    value = (lambda x: fmt.forward(x.T).T) if transposed else fmt.forward
    return _within_rows(value, matrix, None)


def _within_rows(value: Callable[[Tensor], Tensor], matrix: Tensor, scale: Tensor | None) -> Columns:
    """A format that depends on the whole row: the column is quantised within the original matrix."""

    def at(j: int, x: Tensor) -> Tensor:
        tried = matrix.clone()
        tried[:, j] = x
        return value(tried)[:, j]

    return Columns(0, _nothing, at, scale)


def _row(fmt: ScaledFormat, scale: Tensor, row: int) -> Tensor:
    """The scale of one row."""
    return scale if fmt.scale_shape((2, 4)) == fmt.scale_shape((6, 8)) else scale[..., row : row + 1, :]


def _scaled(fmt: ScaledFormat, scale: Tensor, fresh: bool, scale_of: ScaleOf) -> Columns:
    """A scale per tensor, row or group; a group's scale is computed when its columns begin."""
    group = (
        max(cast("Any", fmt).per, 0) if isinstance(fmt, ScaledInteger | ScaledElement | OffsetInteger) else 0
    )  # a tensor and a row: below 1
    if not group:
        return Columns(0, _nothing, lambda _, x: fmt.forward_with(x[:, None], scale)[:, 0], scale)

    def begin(first: int, now: Tensor) -> None:
        number = first // group
        scale[..., number : number + 1] = scale_of(fmt, now[:, first : first + group])

    def at(j: int, x: Tensor) -> Tensor:
        return fmt.forward_with(x[:, None], scale[..., j // group : j // group + 1])[:, 0]

    return Columns(group, begin if fresh else _nothing, at, scale)


def _blocks(fmt: BlockFormat, matrix: Tensor) -> Columns:
    """A block's exponent follows from its largest magnitude, which is quantised beside the column."""
    group, down = fmt.blocks.block, fmt.blocks.rows
    rows, wide = matrix.shape[0], min(max(group, 2), 1 << 10)
    peak = float(matrix.abs().max()) if matrix.numel() else 0.0
    tops = torch.stack([_top(part, down) for part in matrix.split(group, 1)], 1)

    def begin(first: int, now: Tensor) -> None:
        tops[:, first // group] = _top(now[:, first : first + group], down)

    def at(j: int, x: Tensor) -> Tensor:
        top = tops[:, j // group].clamp(max=peak)
        block = torch.zeros(-(-rows // down) * down + down, wide if group > 1 else 1)
        block[:rows, 0] = top
        block[-1, 0] = peak  # for formats with a scale per tensor
        block[:rows, min(1, group - 1)] = (
            torch.minimum(torch.maximum(x, -top), top) if group > 1 else x.clamp(-peak, peak)
        )
        return fmt.forward(block)[:rows, min(1, group - 1)]

    return Columns(group, begin, at)


def _top(part: Tensor, down: int) -> Tensor:
    """[rows] the largest magnitude of each row's tile."""
    top = part.abs().amax(1)
    return torch.cat([t.amax().expand(len(t)) for t in top.split(down)]) if down > 1 else top


def _block_rows(fmt: BlockFormat, matrix: Tensor) -> At:
    """Blocks along the outputs: a column is a row of the format, beside one with the matrix's largest magnitude."""
    peak, down = float(matrix.abs().max()) if matrix.numel() else 0.0, fmt.blocks.rows

    def at(_: int, x: Tensor) -> Tensor:
        rows = torch.zeros(2 * down, len(x))
        rows[0], rows[down, 0] = x.clamp(-peak, peak), peak
        return fmt.forward(rows)[0]

    return cast("At", at)
