"""SmoothQuant and AWQ of one segment after the other, with inputs from the float model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import build
from espalier.passes.recovery.awq import Clipping, Moments, Scaling, why_not_clipped
from espalier.passes.recovery.groups import Group, groups_of
from espalier.passes.recovery.layers import layers_of, plain
from espalier.passes.recovery.smoothing import GroupInput, Smoothing
from espalier.passes.recovery.walk import Stop, samples_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen
from espalier.passes.streaming.batch_walk import walk_batches
from espalier.passes.streaming.stages import Stage, Work

if TYPE_CHECKING:
    from espalier.passes.base import Context, Row
    from espalier.passes.choices.awq import AwqOptions
    from espalier.passes.transform.smoothquant import SmoothquantOptions


def _groups(graph: Graph, nodes: list[Node], insert: bool) -> tuple[list[Group], list[Row]]:
    """(groups of Linears whose input a previous layer can divide, rows of the others with the reason)."""
    if insert:
        raise PassError("insert adds nodes, which a model that is streamed cannot have.", "Switch insert off.")
    results = list(groups_of(nodes, graph, insert=False))
    skipped: list[Row] = [{"node": n.id, "skipped": g[1]} for g in results if not isinstance(g, Group) for n in g[0]]
    return [g for g in results if isinstance(g, Group)], skipped


def _bond(group: Group, graph: Graph) -> set[str]:
    """The nodes whose weights the group changes."""
    names = {name for name, _ in group.producers} | {x.name for x in group.layers}
    return {n.id for n in graph if names & set(n.tensors) and n.call != "get_attr"} | {
        u.id for u in graph for r in u.inputs
        if graph.nodes[r.node].call == "get_attr" and names & set(graph.nodes[r.node].tensors)
    }  # fmt: skip


class SmoothquantStage(Stage):
    """As the pass `smoothquant`, with equal weights."""

    def __init__(self, graph: Graph, options: SmoothquantOptions, context: Context) -> None:
        self.options = options
        nodes = chosen(graph, options.select, lambda n: n.op == "linear", "smoothed")
        self.groups, skipped = _groups(graph, nodes, options.insert)
        if not self.groups:
            raise PassError(f"No input of the {len(nodes)} selected Linears can be divided: {skipped[0]['skipped']}.",
                            "Select others.", skipped[0]["node"])  # fmt: skip
        split = calibration_split(options, context)
        super().__init__("SmoothQuant", samples_of(split, graph, options.batch_size))
        self.bonds, self.rows = [_bond(g, graph) for g in self.groups], skipped

    def run(self, work: Work) -> Graph:
        """Scale the segment's groups."""
        firsts = _firsts(self.groups, work)
        exact = plain(work.graph)
        module = build(exact, work.store)
        inputs = {name: GroupInput() for name in firsts}

        def visit(stop: Stop) -> None:
            for x in stop.inputs():
                inputs[stop.node.id].add(x)

        walk_batches(module, exact, work.flows[0], list(firsts), visit)
        smoothing = Smoothing(work.graph, self.options.alpha, work.store)
        for name, group in firsts.items():
            smoothing.smooth(group, inputs[name])
        self.rows += smoothing.rows
        work.advance(0, module)
        return smoothing.graph


class AwqStage(Stage):
    """As the pass `awq`, with equal weights: one run for the scales, one for clipping."""

    def __init__(self, graph: Graph, options: AwqOptions, context: Context) -> None:
        self.options = options
        able, first = (
            (lambda n: n.op == "linear" and "weight" in n.precision),
            "Give weights of Linears a format first.",
        )
        nodes = chosen(graph, options.select, able, "scaled by AWQ", no_node_hint=first)
        self.groups, skipped = _groups(graph, nodes, options.insert)
        if not self.groups and not options.clip:
            raise PassError(f"No input of the {len(nodes)} selected Linears can be divided: {skipped[0]['skipped']}.",
                            "Switch on clip.", skipped[0]["node"])  # fmt: skip
        layers, _ = layers_of(nodes, graph)
        self.layers = {x.nodes[0].id: x for x in layers if options.clip and not why_not_clipped(x)}
        split = calibration_split(options, context)
        super().__init__("AWQ", samples_of(split, graph, options.batch_size), count=2 if options.clip else 1)
        self.bonds = [_bond(g, graph) for g in self.groups]
        self.bonds += [{n.id for n in x.nodes} for x in self.layers.values() if len(x.nodes) > 1]
        self.rows = skipped

    def run(self, work: Work) -> Graph:
        """Scale the segment's groups, then clip its weights."""
        scaling = Scaling(work.graph, self.options.grid, work.store)
        firsts = _firsts(self.groups, work)
        exact = plain(work.graph)
        module = build(exact, work.store)
        walk_batches(module, exact, work.flows[0], list(firsts),
                     lambda stop: scaling.scale(firsts[stop.node.id], Moments(stop)))  # fmt: skip
        self.rows += scaling.rows
        work.advance(0, module)
        return self._clipped(scaling.graph, work) if self.options.clip else scaling.graph

    def _clipped(self, graph: Graph, work: Work) -> Graph:
        clipping = Clipping(graph, work.store)
        ids = [i for i in graph.nodes if i in self.layers]
        exact = plain(graph)
        module = build(exact, work.store)

        def visit(stop: Stop) -> None:
            self.rows.append(clipping.clip(self.layers[stop.node.id], Moments(stop)))

        walk_batches(module, exact, work.flows[1], ids, visit)
        work.advance(1, module)
        return clipping.graph


def _firsts(groups: list[Group], work: Work) -> dict[str, Group]:
    """First Linear of each of the segment's groups → the group, in the graph's order."""
    by_first = {g.consumers[0].id: g for g in groups}
    return {i: by_first[i] for i in work.graph.nodes if i in by_first}
