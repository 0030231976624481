"""Bytes of the packed file. Its compressed graph is no exact sum: an allocation is checked against the true size."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import Use, header_share, stored
from espalier.passes.costs.base import COSTS, Cost, Shares


def file_bytes(name: str, weight: Weight, uses: Sequence[Use]) -> float:
    """What a weight adds to the file's data and to its header."""
    return float(sum(p.size + header_share(p) for p in stored(name, weight, uses)))


COSTS.add("size_bytes", Cost(
    "size_bytes", "Size", "bytes", "low", "bytes of the packed file (export --as packed)",
    of=lambda graph, score: float(score.size_bytes),
    shares=Shares(weight=file_bytes),
))  # fmt: skip
