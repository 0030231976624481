"""Preserves structured masks when elements of the same weights are pruned afterwards.

Otherwise a head whose bias is masked could be restored without it. The structures are the mask's empty rows and
columns.
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


def structures(sparsity: Sparsity | None) -> str:
    """The structures in a mask's pattern, "heads+neurons"; empty for a mask of elements, n:m or blocks."""
    patterns = [] if sparsity is None or sparsity.flows else sparsity.pattern.split("+")
    return "+".join(p for p in patterns if p not in PATTERNS)


def structurally_dropped(node: Node, shape: tuple[int, ...], store: WeightStore) -> Dropped | None:
    """Elements of a node's weight dropped by structures, True = dropped, in its shape; None without structures."""
    sparsity = node.sparsity.get("weight")
    if sparsity is None or sparsity.mask is None or not structures(sparsity):
        return None
    count = int(np.prod(shape, dtype=np.int64))
    dropped = np.unpackbits(store.get(sparsity.mask).array, count=count).astype(np.bool_).reshape(shape)
    np.logical_not(dropped, out=dropped)
    result = np.zeros_like(dropped)
    for axis in range(min(2, dropped.ndim)):
        result |= dropped.all(axis=tuple(i for i in range(dropped.ndim) if i != axis), keepdims=True)
    return result


def last(part: Scored, dropped: Dropped | None, signed: bool) -> Scored:
    """The scores with structurally dropped elements ranked lowest, so that they count as pruned."""
    if dropped is None:
        return part
    least = np.finfo(np.float32).min if signed else 0.0
    return replace(part, values=np.where(dropped.reshape(-1), np.float32(least), part.values))


def joined(mask: Found, dropped: Dropped | None) -> Found:
    """The mask, also without structurally dropped elements."""
    if dropped is None:
        return mask
    keep = ~dropped.reshape(-1)
    if mask.zeros:
        keep &= np.unpackbits(mask.bits, count=keep.size).astype(np.bool_)
    return Found(np.packbits(keep), keep.size - int(np.count_nonzero(keep)))


def named(node: Node, before: Node) -> Node:
    """The pruned node, with the structures of its previous mask in the pattern: "heads+element"."""
    sparsity, structure = node.sparsity.get("weight"), structures(before.sparsity.get("weight"))
    if sparsity is None or not structure:
        return node
    pattern = f"{structure}+{sparsity.pattern}"
    return replace(node, sparsity={**node.sparsity, "weight": replace(sparsity, pattern=pattern)})
