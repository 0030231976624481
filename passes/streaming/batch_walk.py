"""Visits layers of a segment with their inputs, one batch in memory at a time: each visit runs the nodes before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import fx

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE
from espalier.passes.recovery.walk import Stop
from espalier.passes.running.batches import fit_error

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.streaming.states import Flow


def walk_batches(
    module: fx.GraphModule, graph: Graph, flow: Flow, ids: Sequence[str], visit: Callable[[Stop], None]
) -> None:
    """As `recovery.walk.walk`, with the same values, for less memory and more time."""
    run = _Run(module, flow)
    nodes = {n.meta[NODE]: n for n in module.graph.nodes if NODE in n.meta and n.op != "placeholder"}
    with torch.no_grad():
        for name in ids:
            visit(Stop(graph.nodes[name], partial(run.inputs, nodes[name]), partial(run.pairs, nodes[name])))


class _Run(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, flow: Flow) -> None:
        super().__init__(module)
        self.flow = flow

    def inputs(self, node: fx.Node) -> Iterator[Tensor]:
        """The first operand of a node, by batch."""
        source = cast("fx.Node", node.args[0])
        return (env[source] for env in self._environments(source))

    def pairs(self, node: fx.Node) -> Iterator[tuple[Tensor, Tensor]]:
        """The first operand and the result, by batch."""
        source = cast("fx.Node", node.args[0])
        return ((env[source], env[node]) for env in self._environments(node, source))

    def _environments(self, *wanted: fx.Node) -> Iterator[dict[fx.Node, Any]]:
        """For each batch the values of `wanted`."""
        needed = _before(wanted)
        order = [n for n in cast("fx.GraphModule", self.module).graph.nodes if n in needed]
        ends: dict[fx.Node, list[fx.Node]] = {}
        for n in order:
            last = next((u for u in reversed(order) if n in u.all_input_nodes), None)
            if last is not None and n not in wanted:
                ends.setdefault(last, []).append(n)
        for inputs in self.flow:
            self.env = {}
            for n in order:
                if n.op == "placeholder":
                    self.env[n] = inputs.get(str(n.target))
                else:
                    with fit_error(dict(inputs)):
                        self.env[n] = self.run_node(n)
                for past in ends.get(n, ()):
                    del self.env[past]
            yield self.env


def _before(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """These nodes and all that they depend on."""
    needed, pending = set(nodes), list(nodes)
    while pending:
        for n in pending.pop().all_input_nodes:
            if n not in needed:
                needed.add(n)
                pending.append(n)
    return needed
