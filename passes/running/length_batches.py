"""Batches of texts sorted by length, each padded to the longest of its batch, to avoid computing on padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.data.base import DECODER, IGNORED
from espalier.model.graph.graph import Graph
from espalier.passes.tasks.base import task_of

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

MASK = "attention_mask"
MAX_PAIRS = 1 << 23  # texts × tokens² of a batch: 32 texts of 512
MIN_TOKENS = 2  # graphs of dynamic length are traced for 2 and more


def length_sorted_batches(split: Split, graph: Graph, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """As `batches`, sorted by text length; unsorted if the graph needs the padding."""
    from espalier.passes.running.batches import batches

    lengths = _lengths(split, graph)
    if lengths is None:
        yield from batches(split, graph, size)
        return
    order, start = batch_order(split, graph), 0
    while start < len(split):
        rows = order[start : start + _fitting(lengths[order[start : start + size]])]
        width, start = max(MIN_TOKENS, int(lengths[rows].max())), start + len(rows)
        yield from batches(_cut(split.rows(rows), width), graph, size)


def _fitting(lengths: Any) -> int:
    """Number of texts, shortest first, of a batch: an attention's memory grows with the square of the longest."""
    count = len(lengths)
    while count > 1 and count * int(lengths[count - 1]) ** 2 > MAX_PAIRS:
        count = (count + 1) // 2
    return count


def batch_order(split: Split, graph: Graph) -> NDArray[np.int64]:
    """Row indices of the data in the order of `arranged`."""
    lengths = _lengths(split, graph)
    return np.arange(len(split)) if lengths is None else np.argsort(lengths, kind="stable")


def _cut(split: Split, width: int) -> Split:
    decoder = {k: v for k, v in split.inputs.items() if k.startswith(DECODER)}
    labels, of_decoder = split.labels, width
    if decoder:
        of_decoder = max(MIN_TOKENS, int((labels != IGNORED).sum(1).max()))
        labels = labels[:, :of_decoder]
    elif task_of(split).positions:
        labels = labels[:, :width]
    inputs = {k: v[:, : of_decoder if k in decoder else width] for k, v in split.inputs.items()}
    return replace(split, inputs=inputs, labels=labels)


def _lengths(split: Split, graph: Graph) -> Any:
    """Tokens of each text; None if padding cannot be removed: no mask, a fixed length, padding left, or by task."""
    if task_of(split).uncut:
        return None
    shapes = {n.target: n.ports["data_out"].shape for n in graph.placeholders if "data_out" in n.ports}
    mask = split.inputs.get(MASK)
    if mask is None or mask.ndim != 2 or MASK not in shapes:
        return None
    for name, array in split.inputs.items():
        shape = shapes.get(name)
        wanted = split.labels.shape if name.startswith(DECODER) else mask.shape
        if array.shape != wanted or (shape is not None and not (len(shape) == 2 and isinstance(shape[1], str))):
            return None
    lengths = mask.sum(1)
    right = (mask != 0) == (np.arange(mask.shape[1]) < lengths[:, None])
    return lengths if bool(right.all()) else None
