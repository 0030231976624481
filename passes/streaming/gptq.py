"""GPTQ of one segment after the other, with inputs from the segments that were quantised before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build, read_back
from espalier.passes.recovery.layers import Layer
from espalier.passes.recovery.rounding import Rounding
from espalier.passes.recovery.walk import samples_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.streaming.batch_walk import walk_batches
from espalier.passes.streaming.stages import Stage, Work, settled
from espalier.passes.transform.gptq import layers_to_round, with_better, with_scales

if TYPE_CHECKING:
    from espalier.passes.base import Context
    from espalier.passes.choices.gptq import GptqOptions


class GptqStage(Stage):
    """As the pass `gptq`, with equal results."""

    def __init__(self, graph: Graph, options: GptqOptions, context: Context) -> None:
        self.options, self.context = options, context
        self.layers, skipped = layers_to_round(graph, options)
        split = calibration_split(options, context)
        super().__init__("GPTQ", samples_of(split, graph, options.batch_size))
        self.bonds = [{n.id for n in x.nodes} for x in self.layers if len(x.nodes) > 1]
        self.rows = [{"node": n.id, "skipped": why} for n, why in skipped]

    def run(self, work: Work) -> Graph:
        """Round the weights of the segment's layers."""
        part, store = work.graph, work.store
        own = set(work.segment.nodes)
        layers = [in_part(x, part) for x in self.layers if x.nodes[0].id in own]
        prepared = with_scales(part, layers, self.options, replace(self.context, store=store))
        module = build(prepared, store)
        rounding = Rounding(prepared, module, layers, self.options, store)
        order = {n.id for x in layers for n in x.nodes}
        walk_batches(module, prepared, work.flows[0], [i for i in part.nodes if i in order], rounding.visit)
        self.rows += rounding.rows
        after = with_better(part, prepared, read_back(module, prepared, store), rounding.better)
        settled(module)
        work.advance(0, module)
        return after


def in_part(layer: Layer, part: Graph) -> Layer:
    """A layer of the whole graph with the nodes that a segment has."""
    return replace(layer, nodes=tuple(part.nodes[n.id] for n in layer.nodes))
