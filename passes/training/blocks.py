"""Outputs of a model's repeated blocks ("encoder.layer.0", ".1", …), and taps that record them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.node import refs
from espalier.model.graph.ops import floating
from espalier.model.torch.build import NODE

_BLOCK = re.compile(r"^(.*?\.\d+|\d+)(?=\.|$)")


def block_outputs(graph: Graph) -> dict[str, Node]:
    """Path of each outermost block → the last of its nodes whose single result is used outside the block."""
    of = {n.id: block_of(n) for n in graph}
    leaving = {r.node for n in graph for r in refs((*n.args, *n.kwargs.values())) if of[r.node] != of[n.id]}
    outputs: dict[str, Node] = {}
    for node in graph:
        block = of[node.id]
        if block and node.id in leaving and node.outputs is None and floating(node.ports.get("data_out")):
            outputs[block] = node
    return outputs


def block_of(node: Node) -> str:
    """Path of the outermost block that a node is in; empty outside of blocks."""
    path = node.target if node.call == "call_module" else node.module_path
    match = _BLOCK.match(path)
    return match[1] if match else ""


def width(node: Node) -> object:
    """Size of the last axis of a node's result."""
    return node.ports["data_out"].shape[-1]


class Tap(nn.Module):
    """Identity module that records its input until `take`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Record a tensor and return it."""
        self.seen = x
        return x

    def take(self) -> Tensor:
        """Return the recorded tensor and clear it."""
        seen, self.seen = self.seen, None
        assert seen is not None
        return seen


def tapped(module: nn.Module, outputs: Mapping[str, Node]) -> list[Tap]:
    """Insert a tap after each of these nodes of a built module; in a recorded module, after the block itself."""
    taps = [Tap() for _ in outputs]
    if isinstance(module, fx.GraphModule):
        nodes = {n.meta[NODE]: n for n in module.graph.nodes if NODE in n.meta}
        for number, (tap, node) in enumerate(zip(taps, outputs.values(), strict=True)):
            _insert(module, nodes[node.id], f"tap_{number}", tap)
        module.recompile()
    else:
        for tap, path in zip(taps, outputs, strict=True):
            module.get_submodule(path).register_forward_hook(_hook(tap))
    return taps


def _insert(module: fx.GraphModule, source: fx.Node, name: str, tap: Tap) -> None:
    module.add_submodule(name, tap)
    with module.graph.inserting_after(source):
        call = module.graph.call_module(name, (source,))
    source.replace_all_uses_with(call, delete_user_cb=lambda user: user is not call)


def _hook(tap: Tap) -> Any:
    def record(_: nn.Module, __: Any, result: Any) -> None:
        tap(result if isinstance(result, Tensor) else result[0])

    return record
