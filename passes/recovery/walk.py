"""Runs a built model layer by layer on all batches, so that a layer can be changed given the outputs of the already
changed layers before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, fx, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import NODE
from espalier.model.torch.leaf_builder import alters_input
from espalier.passes.base import Context
from espalier.passes.observed.layerwise import Inputs, LayerwiseRun
from espalier.passes.running.batches import batches, fit_error

if TYPE_CHECKING:
    from espalier.model.data.base import Split

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Stop:
    """A layer that all batches have reached.

    `inputs`: its inputs by batch, after the format of data_in. `pairs`: inputs with the layer's results under its
    present weights, before the format of data_out.
    """

    node: Node
    inputs: Callable[[], Iterator[Tensor]]
    pairs: Callable[[], Iterator[Pair]]


def walk(
    module: nn.Module, graph: Graph, samples: Sequence[Inputs], ids: Sequence[str], visit: Callable[[Stop], None]
) -> None:
    """Run the built `module` on all `samples`, calling `visit` at each of the nodes `ids` before it runs.

    The tensors of all samples that later nodes need are in memory. A recorded model is run again for each layer.
    """
    with torch.no_grad():
        if isinstance(module, fx.GraphModule):
            _Walker(module, graph, samples).go(frozenset(ids), visit)
        else:
            for node in (graph.nodes[i] for i in ids):
                pairs = partial(_hooked, module, graph, samples, node)
                visit(Stop(node, lambda pairs=pairs: (x for x, _ in pairs()), pairs))


def samples_of(split: Split, graph: Graph, size: int) -> list[Inputs]:
    """The inputs of all batches, by the graph's names."""
    return [inputs for inputs, _ in batches(split, graph, size)]


def reporting(visit: Callable[[Stop], None], count: int, context: Context, text: str) -> Callable[[Stop], None]:
    """`visit` with a progress report, out of `count` layers."""
    numbers = iter(range(count))

    def each(stop: Stop) -> None:
        context.progress(next(numbers), count, f"{text} {stop.node.id}")
        visit(stop)

    return each


class _Walker(LayerwiseRun):
    def __init__(self, module: fx.GraphModule, graph: Graph, samples: Sequence[Inputs]) -> None:
        super().__init__(module, samples, graph)

    def go(self, ids: frozenset[str], visit: Callable[[Stop], None]) -> None:
        """Run all nodes up to the last of `ids`, each on all samples."""
        remaining = len(ids)
        for n in cast("fx.GraphModule", self.module).graph.nodes:
            if n.meta.get(NODE) in ids and n.op != "placeholder":
                visit(Stop(self.graph_of.nodes[n.meta[NODE]], partial(self._inputs, n), partial(self._pairs, n)))
                remaining -= 1
            if not remaining:
                return
            self.run_all(n)

    def _inputs(self, n: fx.Node) -> Iterator[Tensor]:
        return (env[cast("fx.Node", n.args[0])] for env in self.envs)

    def _pairs(self, n: fx.Node) -> Iterator[Pair]:
        for env in self.envs:
            self.env = env
            yield env[cast("fx.Node", n.args[0])], self.run_node(n)


class _Reached(Exception):
    """The node has been reached; ends the run early."""


def _hooked(module: nn.Module, graph: Graph, samples: Sequence[Inputs], node: Node) -> Iterator[Pair]:
    """The inputs and results of a node of a recorded model, by one run per batch that ends there."""
    calls = [n.id for n in graph if n.call == "call_module" and n.target == node.target]
    chosen = bool(node.precision or node.sparsity or node.adapters)
    leaf = module.get_submodule(f"{node.target}.{int(alters_input(node))}" if chosen else node.target)
    for inputs in samples:
        skip = [calls.index(node.id)]
        pairs: list[Pair] = []
        hook = leaf.register_forward_hook(partial(_record, skip, pairs))
        try:
            with fit_error(dict(inputs)):
                cast("Any", module)(**inputs)
        except _Reached:
            yield pairs[0]
        finally:
            hook.remove()


def _record(skip: list[int], pairs: list[Pair], leaf: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
    """Record a call after skipping `skip[0]` earlier ones."""
    if skip[0]:
        skip[0] -= 1
        return
    pairs.append((args[0], result))
    raise _Reached
