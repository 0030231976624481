"""Choose what hardware computes in a cycle: by hand for a selection, or greedily where the time goes."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel
from espalier.passes.base import Context, Report, transform
from espalier.passes.choices.parallelize import BalanceOptions, ParallelizeOptions
from espalier.passes.select import chosen
from espalier.verilog.design.options import EmitOptions, sizes_in
from espalier.verilog.lowering.parallelism import Sizes, balanced, cycles_of


@transform("parallelize", "Hardware parallelism", ParallelizeOptions)
def parallelize(graph: Graph, options: ParallelizeOptions, context: Context) -> tuple[Graph, Report]:
    """Set the parallelism of the selected nodes that hardware computes in parts."""
    able = _able(graph, EmitOptions(sizes=sizes_in(options.sizes)), context)
    wanted: dict[str, Parallel] = {}
    for rule in options.rules or (options,):
        for node in chosen(graph, rule.select, lambda n: n.id in able, "computed in parts by hardware"):
            wanted[node.id] = rule.of(able[node.id], node.id)
    after = graph.replace(*(replace(graph.nodes[name], parallel=p) for name, p in wanted.items()))
    rows = tuple({"node": name, "parallel": p.label} for name, p in wanted.items())
    return after, Report("parallelize", rows, {"nodes": len(rows)})


def _able(graph: Graph, options: EmitOptions, context: Context) -> Sizes:
    """Inputs, outputs and rows of the nodes that are computed in parts; from shapes alone while formats are lacking."""
    from espalier.passes.costs.parallel import product_of
    from espalier.verilog.lowering.lower import sizes_of

    try:
        return sizes_of(graph, context.store, options)
    except EmitError:
        found = {n.id: product_of(n, graph) for n in graph}
        return {name: each.sizes for name, each in found.items() if each is not None}


@transform("balance_parallelism", "Balance hardware parallelism", BalanceOptions)
def balance_parallelism(graph: Graph, options: BalanceOptions, context: Context) -> tuple[Graph, Report]:
    """Start with everything folded; give the slowest node the next larger parallelism, as long as the budget lasts."""
    from espalier.verilog.lowering.lower import unbuffered

    emit = EmitOptions(sizes=sizes_in(options.sizes))
    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    design, able = unbuffered(folded, context.store, emit)
    found = balanced(design, able, options.multipliers, options.interval)
    after = folded.replace(*(replace(folded.nodes[name], parallel=p) for name, p in found.chosen.items()))
    # a window or a change of width need not be as much faster as its layer: the design itself tells
    cycles = cycles_of(unbuffered(after, context.store, emit)[0])
    rows = tuple(
        {"node": name, "parallel": found.chosen.get(name, Parallel()).label, "cycles": cycles.get(name, 0)}
        for name in able
    )
    slowest = max(cycles, key=lambda n: cycles[n], default="")
    summary = {"multipliers": found.multipliers, "interval": cycles.get(slowest, 0), "bottleneck": slowest}
    return after, Report("balance_parallelism", rows, summary)
