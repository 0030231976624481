"""Hooks that report each tensor of a model with its gradient, separately for every use, during one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import floating
from espalier.model.torch.build import NODE, OPERANDS, build
from espalier.passes.base import Context

Sink = Callable[[str, str, Tensor, Tensor, str], None]  # node, port, value, gradient, op in between
Wanted = Mapping[str, Collection[str]]
_INSIDE = ("", "inner.", "base.", "base.inner.")  # paths of a leaf's tensors within masks and adapters


class HookedModel:
    """A graph's module that reports its `wanted` ports; a tensor used by several nodes has a gradient for each use."""

    def __init__(self, graph: Graph, wanted: Wanted, sink: Sink, context: Context) -> None:
        self.graph, self.wanted, self.sink = graph, wanted, sink
        self.module: Any = build(graph, context.store, context.callables)
        for tensor in self.module.parameters():
            tensor.requires_grad_(True)
        self._hooks: list[Any] = []
        self._interpreter = _HookInterpreter(self) if isinstance(self.module, fx.GraphModule) else None

    def __call__(self, inputs: Mapping[str, Tensor]) -> Any:
        """Run a batch with gradients enabled; returns the model's result."""
        with torch.enable_grad():
            if self._interpreter is not None:
                return self._interpreter.run(*(inputs.get(n.target) for n in self.graph.placeholders))
            return self._hooked(inputs)

    def tap(self, node: str, port: str, value: Tensor, through: str = "", of: Tensor | None = None) -> Tensor:
        """A copy of `value` for one use, whose gradient is reported; with the value `of` from which an op made it."""
        one = value.view_as(value) if value.requires_grad else value.detach().clone().requires_grad_()
        seen = (one if of is None else of).detach()
        one.register_hook(lambda gradient: self.sink(node, port, seen, gradient.detach(), through))
        return one

    def _hooked(self, inputs: Mapping[str, Tensor]) -> Any:
        """Run a model with its own code: leaves report through module hooks; weights report all uses together."""
        hooks = self._hooks = list[Any]()
        hooked: set[int] = set()
        for node, ports in self.wanted.items():
            leaf = self.module.get_submodule(self.graph.nodes[node].target)
            hooks += self._around(node, leaf, ports)
            for port, own in ((p, _own(leaf, p)) for p in ports):
                if own is not None and id(own[1]) not in hooked:
                    hooked.add(id(own[1]))
                    hooks.append(self._hook(node, port, own[1]))
        return self.module(**inputs)

    def _hook(self, node: str, port: str, tensor: Tensor) -> Any:
        value = tensor.detach()
        return tensor.register_hook(lambda gradient: self.sink(node, port, value, gradient.detach(), ""))

    def _around(self, node: str, leaf: nn.Module, ports: Collection[str]) -> list[Any]:
        def first(_: nn.Module, args: Any) -> Any:
            return self.tap(node, "data_in", args[0]), *args[1:]

        def last(_: nn.Module, __: Any, result: Any) -> Any:
            return self.tap(node, "data_out", result)

        hooks: list[Any] = []
        if "data_in" in ports:
            hooks.append(leaf.register_forward_pre_hook(first))
        if "data_out" in ports:
            hooks.append(leaf.register_forward_hook(last))
        return hooks

    def release(self) -> None:
        """Remove the hooks after a backward pass."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


class _HookInterpreter(fx.Interpreter):
    def __init__(self, hooked: HookedModel) -> None:
        super().__init__(hooked.module)
        self.hooked = hooked
        self.sources = {n.name: n for n in hooked.module.graph.nodes}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node with its wanted operands hooked; one without floating results has no gradient."""
        node = self.hooked.graph.nodes.get(n.meta.get(NODE, ""))
        with nullcontext() if node is None or _differentiable(node) else torch.no_grad():
            return self._run(n, node)

    def _run(self, n: fx.Node, node: Node | None) -> Any:
        ports = self.hooked.wanted.get(node.id, ()) if node else ()
        if node is None or not ports:
            return super().run_node(n)
        special = through(node)
        before: dict[fx.Node, Any] = {}
        for port, name in n.meta.get(OPERANDS, ()):
            source = self.sources[name]
            value = self.env[source]
            if (
                port in ports
                and isinstance(value, Tensor)
                and value.is_floating_point()
                and (port, "softmax") != special
            ):
                before.setdefault(source, value)
                self.env[source] = self.hooked.tap(node.id, port, value)
        result = self._result(n, node, [p for p in ports if special is None or p != special[0]])
        self.env.update(before)
        if special and special[0] in ports:
            first = self.env[self.sources[n.meta[OPERANDS][0][1]]] if n.meta.get(OPERANDS) else None
            result = self.hooked.tap(node.id, special[0], result, special[1], first)
        if "data_out" in ports and isinstance(result, Tensor) and result.is_floating_point():
            return self.hooked.tap(node.id, "data_out", result)
        return result

    def _result(self, n: fx.Node, node: Node, ports: Collection[str]) -> Any:
        stored = [p for p in node.weights if p in ports] if n.op == "call_module" else []
        if not stored:
            return super().run_node(n)
        leaf = self.hooked.module.get_submodule(str(n.target))
        own = {p: tensor for p in stored if (tensor := _own(leaf, p)) is not None}
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        values = {path: self.hooked.tap(node.id, port, value) for port, (path, value) in own.items()}
        return functional_call(leaf, values, args, kwargs)


def _differentiable(node: Node) -> bool:
    """Whether a node may have a gradient; torch refuses to make one for whole numbers, such as counts of a sum."""
    results = [m for p, m in node.ports.items() if p.startswith("data_out")]
    return not results or any(map(floating, results))


def through(node: Node) -> tuple[str, str] | None:
    """(port, op) if the error at a port is taken after the op: an embedding's rows, or logits of a softmax, whose
    masked elements are infinite."""
    if node.op == "embedding" and node.call == "call_module":
        return "weight", "embedding"
    rank = len(node.ports["data_in"].shape) if "data_in" in node.ports else 0
    axis = node.attrs.get("dim") if node.call == "call_module" else node.args[1] if len(node.args) > 1 else None
    return ("data_in", "softmax") if node.op == "softmax" and axis in (-1, rank - 1) else None


def _own(leaf: nn.Module, port: str) -> tuple[str, Tensor] | None:
    """(path, tensor) of a leaf's tensor, also within masks and adapters."""
    for path in _INSIDE:
        try:
            tensor = dict(leaf.get_submodule(path.rstrip(".")).named_parameters(recurse=False)).get(port)
        except AttributeError:
            continue
        if tensor is not None:  # a wrapper exposes its inner module's as a property only
            return f"{path}{port}", tensor
    return None
