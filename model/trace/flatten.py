"""Flattens an exported program's nodes: subgraphs inlined, assertions removed, in-place writes resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from espalier.model.torch.targets import OpOverload
from espalier.model.trace.capture import quiet

_DROPPED = ("_assert_", "sym_constrain", "_assert_tensor_metadata", "_functional_assert")
_WRAPPERS = ("wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap_with_inference_mode")


def functional(program: ExportedProgram) -> ExportedProgram:
    """`program` without writes through views; writes to a whole tensor are resolved later by renaming."""
    if not any(_writes_through_view(n) for n in program.graph.nodes):
        return program
    with quiet():
        return program.run_decompositions({})


def _schema(node: fx.Node) -> Any:
    return getattr(node.target, "_schema")  # noqa: B009  torch names it private and offers nothing else


def mutates(node: fx.Node) -> bool:
    """Whether an operator writes into its first argument."""
    return isinstance(node.target, OpOverload) and _schema(node).is_mutable


def _writes_through_view(node: fx.Node) -> bool:
    if node.op != "call_function" or not mutates(node):
        return False
    base = node.args[0]
    twin = pure_twin(node)
    return twin is None or not isinstance(base, fx.Node) or aliases(base) or any(aliases(u) for u in base.users)


def aliases(node: fx.Node) -> bool:
    """Whether a node's result may share memory with its arguments: an input, a view."""
    if not isinstance(node.target, OpOverload) or mutates(node):
        return node.op == "placeholder"
    return any(r.alias_info is not None for r in _schema(node).returns)


def pure_twin(node: fx.Node) -> Any:
    """The operator that returns what an in-place operator writes (add_ → add), or None."""
    packet, overload = _schema(node).name.split("::")[-1], node.target._overloadname  # type: ignore[union-attr]
    if not packet.endswith("_"):
        return None
    twin = getattr(torch.ops.aten, packet[:-1], None)
    return getattr(twin, overload, None) if twin is not None else None


class Flat:
    """The nodes of a program in order; `resolve` follows inlined subgraphs and in-place writes."""

    def __init__(self, program: ExportedProgram) -> None:
        self.alias: dict[fx.Node, Any] = {}
        self.nodes = list(self._walk(program.graph_module))

    def resolve(self, value: Any) -> Any:
        """The value that `value` stands for."""
        while isinstance(value, fx.Node) and value in self.alias:
            value = self.alias[value]
        return value

    def _walk(self, module: torch.nn.Module) -> Iterator[fx.Node]:
        for node in module.graph.nodes:  # type: ignore[union-attr]
            name = getattr(node.target, "__name__", str(node.target))
            if node.op == "call_function" and any(d in name for d in _DROPPED):
                continue
            if node.op == "call_function" and any(w in str(node.target) for w in _WRAPPERS):
                yield from self._inline(node, module)
            elif not self._is_inlined_item(node):
                yield node

    def _inline(self, node: fx.Node, home: torch.nn.Module) -> Iterator[fx.Node]:
        at = next(i for i, a in enumerate(node.args) if isinstance(a, fx.Node) and a.op == "get_attr")
        body = getattr(home, str(node.args[at].target))  # type: ignore[union-attr]
        placeholders = [n for n in body.graph.nodes if n.op == "placeholder"]
        self.alias.update(zip(placeholders, node.args[at + 1 :], strict=True))
        for inner in self._walk(body):
            if inner.op == "output":
                self.alias[node] = inner.args[0]
            elif inner.op != "placeholder":
                yield inner

    def _is_inlined_item(self, node: fx.Node) -> bool:
        if "getitem" not in str(node.target) or node.op != "call_function":
            return False
        items = self.resolve(node.args[0])
        if not isinstance(items, list | tuple):
            return False
        self.alias[node] = items[node.args[1]]  # type: ignore[index]
        return True
