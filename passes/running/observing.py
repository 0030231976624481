"""Observes the tensors at ports while a built model runs on batches: one batch in memory at a time.

Tensors are observed before the port's own format, so that formats can be tried on them; `data_out` is the node's result
before its format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, fx, nn

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE, OPERANDS, PORT, build
from espalier.passes.base import Context
from espalier.passes.running.batches import batches, fit_error

if TYPE_CHECKING:
    from espalier.model.data.base import Split

Sink = Callable[[str, str, Tensor], None]
Wanted = Mapping[str, Collection[str]]


def observe(graph: Graph, split: Split, batch_size: int, wanted: Wanted, sink: Sink, context: Context) -> None:
    """Run the graph on `split` and call `sink` with (node id, port, tensor) of each wanted port in each batch.

    Activations only: weights are in the store. Raises DataError for unfit data.
    """
    module = build(graph, context.store, context.callables)
    run = tap(module, graph, wanted, sink)
    seen = 0
    with torch.no_grad():
        for inputs, labels in batches(split, graph, batch_size):
            with fit_error(inputs, graph):
                run(inputs)
            seen += len(labels)
            context.progress(seen, len(split), "observing activations")


def tap(module: nn.Module, graph: Graph, wanted: Wanted, sink: Sink) -> Callable[[Mapping[str, Tensor]], Any]:
    """A function that runs the built `module` on inputs by name and calls `sink`; it returns the model's result."""
    if isinstance(module, fx.GraphModule):
        interpreter = _Tap(module, wanted, sink)
        return lambda inputs: interpreter.run(*(inputs.get(n.target) for n in graph.placeholders))
    return lambda inputs: _hooked(module, graph, wanted, sink, inputs)


class _Tap(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, wanted: Wanted, sink: Sink) -> None:
        super().__init__(module)
        self.wanted, self.sink = wanted, sink
        self.sources = {n.name: n for n in module.graph.nodes}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node and report its wanted inputs and output."""
        for node, port in n.meta.get(PORT, ()):
            self._report(node, port, self.env[n.args[0]])  # type: ignore[index]
        ports = self.wanted.get(n.meta[NODE], ()) if NODE in n.meta else ()
        for port, name in n.meta[OPERANDS] if ports else ():
            source = self.sources[name]
            if (n.meta[NODE], port) not in source.meta.get(PORT, ()):
                self._report(n.meta[NODE], port, self.env[source])
        result = super().run_node(n)
        if "data_out" in ports and not _has_format(n):
            self._report(n.meta[NODE], "data_out", result)
        return result

    def _report(self, node: str, port: str, value: Any) -> None:
        if port in self.wanted.get(node, ()) and isinstance(value, Tensor) and value.is_floating_point():
            self.sink(node, port, value)


def _has_format(n: fx.Node) -> bool:
    """Whether the node's result has an output format, whose node then reports it."""
    return any((n.meta[NODE], "data_out") in user.meta.get(PORT, ()) for user in n.users)


def _hooked(module: nn.Module, graph: Graph, wanted: Wanted, sink: Sink, inputs: Mapping[str, Tensor]) -> Any:
    """Run a model with its own code, observed by hooks on its leaves."""
    hooks: list[Any] = []

    def watch(node: str, leaf: nn.Module, ports: Collection[str]) -> Iterable[Any]:
        if "data_in" in ports:
            yield leaf.register_forward_pre_hook(lambda _, args: sink(node, "data_in", cast("Tensor", args[0])))
        if "data_out" in ports:
            yield leaf.register_forward_hook(lambda _, __, result: sink(node, "data_out", cast("Tensor", result)))

    try:
        for node, ports in wanted.items():
            if graph.nodes[node].call == "call_module":
                hooks.extend(watch(node, module.get_submodule(graph.nodes[node].target), ports))
        return cast("Any", module)(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
