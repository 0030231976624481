"""The number of rows of a tensor that a format quantises independently."""

from __future__ import annotations

from espalier.model.formats.base import Format
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled import TENSOR, ScaledFormat, per_of


def independent_rows(fmt: Format) -> int:
    """The smallest number of rows that can be quantised independently; 0 if the whole tensor is needed."""
    if fmt.stochastic:
        return 0
    if isinstance(fmt, BlockFormat):
        return 0 if isinstance(fmt, NVFP4) else fmt.blocks.rows
    if isinstance(fmt, ScaledFormat):
        per = getattr(fmt, "per", None)
        return 0 if (per_of(getattr(fmt, "granularity", "tensor")) if per is None else per) == TENSOR else 1
    return 0 if fmt.rowwise else 1
