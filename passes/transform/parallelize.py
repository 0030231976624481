"""Sets the parallelism of hardware: for a selection, or balanced greedily by cycles."""

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
    sizes = _sizes(graph, EmitOptions(sizes=sizes_in(options.sizes)), context)
    parallel: dict[str, Parallel] = {}
    for rule in options.rules or (options,):
        for node in chosen(graph, rule.select, lambda n: n.id in sizes, "computed in parts by hardware"):
            parallel[node.id] = rule.of(sizes[node.id], node.id)
    after = graph.replace(*(replace(graph.nodes[name], parallel=p) for name, p in parallel.items()))
    rows = tuple({"node": name, "parallel": p.label} for name, p in parallel.items())
    return after, Report("parallelize", rows, {"nodes": len(rows)})


def _sizes(graph: Graph, options: EmitOptions, context: Context) -> Sizes:
    """Inputs, outputs and rows of the nodes that are computed in parts; from shapes alone if formats are missing."""
    from espalier.passes.costs.parallel import product_of
    from espalier.verilog.lowering.lower import sizes_of

    try:
        return sizes_of(graph, context.store, options)
    except EmitError:
        products = {n.id: product_of(n, graph) for n in graph}
        return {name: product.sizes for name, product in products.items() if product is not None}


@transform("balance_parallelism", "Balance hardware parallelism", BalanceOptions)
def balance_parallelism(graph: Graph, options: BalanceOptions, context: Context) -> tuple[Graph, Report]:
    """Start fully folded; repeatedly give the slowest node the next larger parallelism, within the budget."""
    from espalier.verilog.lowering.lower import unbuffered

    emit = EmitOptions(sizes=sizes_in(options.sizes))
    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    design, sizes = unbuffered(folded, context.store, emit)
    balance = balanced(design, sizes, options.multipliers, options.interval)
    after = folded.replace(*(replace(folded.nodes[name], parallel=p) for name, p in balance.chosen.items()))
    # Cycles of the design itself: a window or a width converter may be slower than its layer.
    cycles = cycles_of(unbuffered(after, context.store, emit)[0])
    rows = tuple(
        {"node": name, "parallel": balance.chosen.get(name, Parallel()).label, "cycles": cycles.get(name, 0)}
        for name in sizes
    )
    slowest = max(cycles, key=lambda n: cycles[n], default="")
    summary = {"multipliers": balance.multipliers, "interval": cycles.get(slowest, 0), "bottleneck": slowest}
    return after, Report("balance_parallelism", rows, summary)
