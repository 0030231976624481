"""Choose what hardware computes in a cycle: by hand for a selection, or greedily where the time goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from espalier.model.errors import EmitError, PassError
from espalier.model.graph import Graph
from espalier.model.meta import Parallel
from espalier.passes.base import Context, Report, transform
from espalier.passes.select import Select, chosen
from espalier.verilog.cycles.parallel import Sizes, at_most, balanced, cycles_of, divisors
from espalier.verilog.options import EmitOptions, sizes_in


@dataclass(frozen=True, slots=True)
class ParallelRule:
    """How much of some nodes at once: inputs, outputs and rows, or a number of products that is split by itself."""

    select: Select = field(default_factory=Select, metadata={"help": "the nodes"})
    inputs: int = field(default=1, metadata={"min": 1, "help": "inputs of a node in a cycle"})
    outputs: int = field(default=1, metadata={"min": 1, "help": "outputs of a node in a cycle"})
    tokens: int = field(default=1, metadata={"min": 1, "help": "rows (tokens, pixels) in a cycle"})
    products: int = field(default=0, metadata={"min": 0, "help": "at most so many products a cycle; 0: as above"})

    def of(self, sizes: tuple[int, int, int], node: str) -> Parallel:
        """For a node of these inputs, outputs and rows; raises PassError where numbers do not divide them."""
        if self.products:
            return at_most(sizes, self.products)
        for title, size in zip(("inputs", "outputs", "tokens"), sizes, strict=True):
            if size % getattr(self, title):
                fits = ", ".join(map(str, divisors(size)))
                what = "rows" if title == "tokens" else title
                text = f"{node} has {size} {what}; {getattr(self, title)} at once do not divide them."
                raise PassError(text, f"Choose one of {fits}.", node)
        return Parallel(self.inputs, self.outputs, self.tokens)


@dataclass(frozen=True, slots=True)
class ParallelizeOptions(ParallelRule):
    """How much of the selected nodes at once; each number must divide the node's inputs, outputs or rows."""

    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})
    rules: tuple[ParallelRule, ...] = field(
        default=(), metadata={"help": "instead: several groups of nodes, each with its own; the last one holds"}
    )


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
    from espalier.passes.parallel import product_of
    from espalier.verilog.lower import sizes_of

    try:
        return sizes_of(graph, context.store, options)
    except EmitError:
        found = {n.id: product_of(n, graph) for n in graph}
        return {name: each.sizes for name, each in found.items() if each is not None}


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """Where to stop."""

    multipliers: int = field(default=64, metadata={"min": 1, "help": "products in a cycle that the design may compute"})
    interval: int = field(default=0, metadata={"min": 0, "help": "cycles a sample that are short enough; 0 = any"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})


@transform("balance_parallelism", "Balance hardware parallelism", BalanceOptions)
def balance_parallelism(graph: Graph, options: BalanceOptions, context: Context) -> tuple[Graph, Report]:
    """Start with everything folded; give the slowest node the next larger parallelism, as long as the budget lasts."""
    from espalier.verilog.lower import unbuffered

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
