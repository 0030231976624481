"""Grid of a format with data-dependent scales: that of the block, row or tensor of median scale. numpy only."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from espalier.app.number_text import figure
from espalier.app.translation import tr
from espalier.model.formats.base import Format
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, shared_shape
from espalier.model.graph.views import View

Array = NDArray[Any]
PROBES = 4096
MAX_VALUES = 1 << 20  # values used for the median


def viewed(x: Array, view: View | None) -> Array:
    """An array in the view of its port."""
    return x if view is None else view.of_array(x)


def middle_grid(fmt: Format, x: Array) -> tuple[Array, str] | None:
    """(representable values, description) of the block, row or tensor with the median scale of `x`.

    `x`: finite rows in the format's view. None for a format without shared scales.
    """
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)
    if not rows.size:
        return None
    if isinstance(fmt, BlockFormat):
        return _of_block(fmt, rows)
    return _of_scale(fmt, rows) if isinstance(fmt, ScaledFormat) else None


def of_pairs(fmt: BlockFormat) -> BlockFormat:
    """The format with blocks of two elements of a row."""
    one_row = {"rows": 1} if hasattr(fmt, "rows") else {}
    return cast("BlockFormat", replace(cast("Any", fmt), block=2, **one_row))


def _of_block(fmt: BlockFormat, rows: Array) -> tuple[Array, str]:
    blocks = fmt.blocks.split(rows[: max(fmt.blocks.rows, MAX_VALUES // rows.shape[1])])
    tops = np.abs(blocks).max((-2, -1)).reshape(-1)
    top = float(np.sort(tops)[len(tops) // 2])
    pair = of_pairs(fmt)
    probes = np.linspace(-top, top, PROBES, dtype=np.float32)
    values = pair.rounded(np.stack([probes, np.full_like(probes, top)], axis=1))[:, 0]
    text = tr("grid of the median tile of {} (max {})") if fmt.blocks.rows > 1 else (
        tr("grid of the median block of {} (max {})"))  # fmt: skip
    about = text.format(fmt.blocks.text, figure(top))
    return np.unique(values).astype(np.float64), about


def _of_scale(fmt: ScaledFormat, rows: Array) -> tuple[Array, str]:
    per = cast("int", getattr(fmt, "per", TENSOR if getattr(fmt, "granularity", "tensor") == "tensor" else ROW))
    whole = np.asarray(fmt.scale_of_array(rows))
    shared = shared_shape(rows.shape, per)
    each = whole.reshape(-1, math.prod(shared))  # [parts of a scale, scales]
    middle = int(np.argsort(each[0], kind="stable")[each.shape[1] // 2])
    reach = float(np.abs(rows).max())
    probes = np.linspace(-reach, reach, PROBES, dtype=np.float32)[None, :]
    wanted = fmt.scale_shape(probes.shape)
    parts = each[:, middle].reshape(each.shape[0], *[1] * (len(wanted) - (whole.ndim > len(shared))))
    scale = np.broadcast_to(parts if whole.ndim > len(shared) else parts[0], wanted).astype(np.float32)
    values = np.unique(fmt.decode(fmt.encode_with(probes, scale))).astype(np.float64)
    return values, _description(per)


def _description(per: int) -> str:
    if per == TENSOR:
        return tr("grid of the whole tensor")
    return tr("grid of the median row") if per == ROW else tr("grid of the median group of {}", per)
