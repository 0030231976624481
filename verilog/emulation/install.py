"""Registers the hardware emulation with `model`; its implementation is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from espalier.model.torch.emulators import register

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.graph.graph import Graph, Node
    from espalier.model.store.weights import WeightStore
    from espalier.model.torch.emulators import Emulation


def _emulate(graph: Graph, store: WeightStore, node: Node, tensors: Mapping[str, Tensor]) -> Emulation | None:
    from espalier.verilog.emulation.node_emulation import emulate

    return emulate(graph, store, node, tensors)


def install_emulation() -> None:
    """Register the emulation."""
    register(_emulate)
