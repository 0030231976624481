"""AutoRound of one segment after the other, with the states of the float model beside those of the quantised one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.passes.recovery.layers import plain
from espalier.passes.recovery.sign_descent import SignDescent
from espalier.passes.recovery.unit_runs import UnitRun
from espalier.passes.recovery.walk import samples_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.streaming.gptq import in_part
from espalier.passes.streaming.stages import Stage, Work
from espalier.passes.transform.autoround import check_weights, learning_text, units_to_learn

if TYPE_CHECKING:
    from espalier.passes.base import Context
    from espalier.passes.choices.autoround import AutoroundOptions


class AutoroundStage(Stage):
    """As the pass `autoround`, with equal results. The states of all batches at a segment are in memory, twice."""

    def __init__(self, graph: Graph, options: AutoroundOptions, context: Context) -> None:
        self.options, self.context = options, context
        self.units, skipped = units_to_learn(graph, options)
        split = calibration_split(options, context)
        super().__init__("AutoRound", samples_of(split, graph, options.batch_size), count=2)
        self.bonds = [set(u.nodes) for u in self.units if len(u.nodes) > 1]
        self.rows = [{"node": n.id, "skipped": why} for n, why in skipped]

    def run(self, work: Work) -> Graph:
        """Learn the rounding of the segment's units."""
        part, store = work.graph, work.store
        own = set(work.segment.nodes)
        units = [replace(u, layers=tuple(in_part(x, part) for x in u.layers))
                 for u in self.units if u.layers[0].nodes[0].id in own]  # fmt: skip
        modules = build(plain(part), store), build(part, store)
        if units:
            check_weights(units, part, store)
            exact, rounded = (UnitRun(m, list(f), units, part) for m, f in zip(modules, work.flows, strict=True))
            descent = SignDescent(part, self.options, store, exact, rounded, self.context.seed)
            for number, unit in enumerate(units):
                descent.learn(number, partial(self._report, unit.title))
            self.rows += descent.rows
            part = descent.graph
        for number, module in enumerate(modules):
            work.advance(number, module)
        return part

    def _report(self, title: str, step: int, loss: float) -> None:
        number = next(i for i, u in enumerate(self.units) if u.title == title)
        told = learning_text(title, step, loss)
        self.context.progress(number * self.options.steps + step, len(self.units) * self.options.steps, told)
