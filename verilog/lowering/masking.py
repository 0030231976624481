"""A node's own tensor after its mask, before its format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.graph.adapters import transposed
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.verilog.numbers.scaled import stored_weight


def masked(node: Node, name: str, graph: Graph, store: WeightStore) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """A node's masked, unquantised tensor, and the mask; None without one."""
    if node.adapters:
        raise EmitError(f"{node.id} has a LoRA adapter.", "Fuse it first (pass fuse_lora).", node.id)
    import torch

    from espalier.model.torch.leaf_builder import effective

    weight = weight_at(node, name, graph)
    assert weight is not None
    raw = torch.from_numpy(stored_weight(weight, graph, store, node))
    work = effective(replace(node, precision={}), name, graph, store)
    values, mask = work(raw.float()).detach().numpy(), None if work.mask is None else work.mask.numpy()
    if name == "weight" and transposed(node):
        return values.T, None if mask is None else mask.T
    return values, mask
