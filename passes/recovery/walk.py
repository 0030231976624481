"""Run a built model layer by layer: all batches come to a layer before any goes on, so that a layer may be altered
on what the layers before it, already altered, give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, fx, nn

from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import NODE, alters_input
from espalier.passes.base import Context
from espalier.passes.observed.layerwise import Inputs, LayerwiseRun
from espalier.passes.running.batches import batches, fit_error

if TYPE_CHECKING:
    from espalier.model.data.base import Split

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Stop:
    """A layer that all batches have come to.

    `inputs`: what it computes on, after the format of `data_in`, batch by batch. `pairs`: that, and what the layer
    gives for it, before the format of `data_out`, under the weights that it has at that moment.
    """

    node: Node
    inputs: Callable[[], Iterator[Tensor]]
    pairs: Callable[[], Iterator[Pair]]


def walk(
    module: nn.Module, graph: Graph, samples: Sequence[Inputs], wanted: Sequence[str], visit: Callable[[Stop], None]
) -> None:
    """Run the built `module` on all `samples`, calling `visit` at each of the nodes `wanted` before it runs for good.

    In memory are the tensors of all samples that later nodes still need. A model that runs with its own code is run
    again for each layer.
    """
    with torch.no_grad():
        if isinstance(module, fx.GraphModule):
            _Walker(module, graph, samples).go(frozenset(wanted), visit)
        else:
            for node in (graph.nodes[i] for i in wanted):
                pairs = partial(_hooked, module, graph, samples, node)
                visit(Stop(node, lambda pairs=pairs: (x for x, _ in pairs()), pairs))


def samples_of(split: Split, graph: Graph, size: int) -> list[Inputs]:
    """The inputs of all batches, by the graph's names."""
    return [inputs for inputs, _ in batches(split, graph, size)]


def told(visit: Callable[[Stop], None], count: int, context: Context, text: str) -> Callable[[Stop], None]:
    """`visit`, which tells the progress among `count` layers."""
    seen = iter(range(count))

    def each(stop: Stop) -> None:
        context.progress(next(seen), count, f"{text} {stop.node.id}")
        visit(stop)

    return each


class _Walker(LayerwiseRun):
    def __init__(self, module: fx.GraphModule, graph: Graph, samples: Sequence[Inputs]) -> None:
        super().__init__(module, samples)
        self.graph_of = graph

    def go(self, wanted: frozenset[str], visit: Callable[[Stop], None]) -> None:
        """All nodes up to the last one wanted, each on all samples."""
        left = len(wanted)
        for n in cast("fx.GraphModule", self.module).graph.nodes:
            if n.meta.get(NODE) in wanted and n.op != "placeholder":
                visit(Stop(self.graph_of.nodes[n.meta[NODE]], partial(self._inputs, n), partial(self._pairs, n)))
                left -= 1
            if not left:
                return
            self.run_all(n)

    def _inputs(self, n: fx.Node) -> Iterator[Tensor]:
        return (env[cast("fx.Node", n.args[0])] for env in self.envs)

    def _pairs(self, n: fx.Node) -> Iterator[Pair]:
        for env in self.envs:
            self.env = env
            yield env[cast("fx.Node", n.args[0])], self.run_node(n)


class _Reached(Exception):
    """No error: what was wanted of a run is there, the rest of it is not needed."""


def _hooked(module: nn.Module, graph: Graph, samples: Sequence[Inputs], node: Node) -> Iterator[Pair]:
    """The node's calls of a recorded model, one run a sample, which ends there."""
    calls = [n.id for n in graph if n.call == "call_module" and n.target == node.target]
    chosen = bool(node.precision or node.sparsity or node.adapters)
    leaf = module.get_submodule(f"{node.target}.{int(alters_input(node))}" if chosen else node.target)
    for inputs in samples:
        left = [calls.index(node.id)]
        found: list[Pair] = []
        hook = leaf.register_forward_hook(partial(_keep, left, found))
        try:
            with fit_error(dict(inputs)):
                cast("Any", module)(**inputs)
        except _Reached:
            yield found[0]
        finally:
            hook.remove()


def _keep(left: list[int], found: list[Pair], leaf: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
    if left[0]:
        left[0] -= 1
        return
    found.append((args[0], result))
    raise _Reached
