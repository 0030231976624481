"""What a structured pruning masked stays masked when single elements of the same weights are pruned after it.

Else a head whose bias is masked would come back without it. What stands are the mask's empty rows and columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node
from espalier.model.graph.meta import Sparsity
from espalier.model.store.weights import WeightStore
from espalier.passes.choices.pruning import PATTERNS
from espalier.passes.pruning.patterns import Found, Scored

Dropped = NDArray[np.bool_]


def structures(held: Sparsity | None) -> str:
    """The structures in a mask's pattern, "heads+neurons"; empty for a mask of elements, n:m or blocks alone."""
    words = [] if held is None or held.flows else held.pattern.split("+")
    return "+".join(w for w in words if w not in PATTERNS)


def standing(node: Node, shape: tuple[int, ...], store: WeightStore) -> Dropped | None:
    """What structures dropped of a node's weight, True = dropped, in its shape; None where there are none."""
    held = node.sparsity.get("weight")
    if held is None or held.mask is None or not structures(held):
        return None
    count = int(np.prod(shape, dtype=np.int64))
    dropped = np.unpackbits(store.get(held.mask).array, count=count).astype(np.bool_).reshape(shape)
    np.logical_not(dropped, out=dropped)
    found = np.zeros_like(dropped)
    for axis in range(min(2, dropped.ndim)):
        found |= dropped.all(axis=tuple(i for i in range(dropped.ndim) if i != axis), keepdims=True)
    return found


def last(part: Scored, dropped: Dropped | None, signed: bool) -> Scored:
    """The scores with what stands dropped ranked below all else, so that it counts among what goes."""
    if dropped is None:
        return part
    least = np.finfo(np.float32).min if signed else 0.0
    return replace(part, values=np.where(dropped.reshape(-1), np.float32(least), part.values))


def joined(found: Found, dropped: Dropped | None) -> Found:
    """The mask with what stands dropped taken out too."""
    if dropped is None:
        return found
    keep = ~dropped.reshape(-1)
    if found.zeros:
        keep &= np.unpackbits(found.bits, count=keep.size).astype(np.bool_)
    return Found(np.packbits(keep), keep.size - int(np.count_nonzero(keep)))


def named(node: Node, before: Node) -> Node:
    """The pruned node, its pattern beginning with the structures that its mask had before: "heads+element"."""
    held, structure = node.sparsity.get("weight"), structures(before.sparsity.get("weight"))
    if held is None or not structure:
        return node
    return replace(node, sparsity={**node.sparsity, "weight": replace(held, pattern=f"{structure}+{held.pattern}")})
