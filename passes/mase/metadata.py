"""`node.meta["mase"]`: MASE's facts about a node, from ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import kind


class Metadata:
    """`node.meta["mase"]`: three dicts, "common", "software" and "hardware"."""

    def __init__(self, node: fx.Node, model: nn.Module, common: dict[str, Any]) -> None:
        self.node = node
        self.model = model
        self.parameters: dict[str, dict[str, Any]] = {"common": common, "software": {}, "hardware": {}}

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self.parameters[key]

    def __setitem__(self, key: str, value: dict[str, Any]) -> None:
        self.parameters[key] = value

    @property
    def module(self) -> nn.Module | None:
        """The module that the node calls."""
        return self.model.get_submodule(str(self.node.target)) if self.node.op == "call_module" else None


def annotate(model: fx.GraphModule, graph: Graph, known: Mapping[fx.Node, str]) -> None:
    """Put `meta["mase"]` on every node of `model`; nodes that no node of `graph` stands for get an empty one."""
    for node in model.graph.nodes:
        name = known.get(node)
        common = common_of(graph.nodes[name], graph.symbols) if name else {"args": {}, "results": {}}
        node.meta["mase"] = Metadata(node, model, common)


def common_of(node: Node, symbols: dict[str, int]) -> dict[str, Any]:
    """mase_type, mase_op, and arguments and results by port with shape, dtype, type and precision."""
    entries = {_port(p): _tensor(node, p, m, symbols) for p, m in node.ports.items()}
    return {
        "mase_type": kind(node),
        "mase_op": node.op,
        "args": {p: e for p, e in entries.items() if not p.startswith("data_out")},
        "results": {p: e for p, e in entries.items() if p.startswith("data_out")},
    }


def _port(port: str) -> str:
    """MASE numbers the first data port too."""
    return f"{port}_0" if port in ("data_in", "data_out") else port


def _tensor(node: Node, port: str, meta: TensorMeta, symbols: dict[str, int]) -> dict[str, Any]:
    chosen = node.precision.get(port)
    dtype = getattr(torch, meta.dtype)
    found: dict[str, Any] = {"shape": list(meta.sizes(symbols)), "torch_dtype": dtype}
    if chosen is None:
        kind_ = "float" if dtype.is_floating_point else "integer"
        return found | {"type": kind_, "precision": [dtype.itemsize * 8]}
    widths = [v for k in ("width", "frac_width") if isinstance(v := getattr(chosen.format, k, None), int)]
    named = "fixed" if chosen.format.name == "integer" else chosen.format.name
    return found | {"type": named, "precision": widths or [chosen.format.bits]}
