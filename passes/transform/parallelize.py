"""Choose what hardware computes in a cycle: by hand for a selection, or greedily where the time goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from model.errors import PassError
from model.graph import Graph
from model.meta import Parallel
from passes.base import Context, Report, transform
from passes.select import Select, chosen
from verilog.options import EmitOptions, sizes_in
from verilog.parallel import balanced, divisors


@dataclass(frozen=True, slots=True)
class ParallelizeOptions:
    """How much of the selected nodes at once; each number must divide the node's inputs, outputs or rows."""

    select: Select = field(default_factory=Select, metadata={"help": "the nodes"})
    inputs: int = field(default=1, metadata={"min": 1, "help": "inputs of a node in a cycle"})
    outputs: int = field(default=1, metadata={"min": 1, "help": "outputs of a node in a cycle"})
    tokens: int = field(default=1, metadata={"min": 1, "help": "rows (tokens, pixels) in a cycle"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})


@transform("parallelize", "Hardware parallelism", ParallelizeOptions)
def parallelize(graph: Graph, options: ParallelizeOptions, context: Context) -> tuple[Graph, Report]:
    """Set the parallelism of the selected nodes that hardware computes in parts."""
    from verilog.lower import sizes_of

    able = sizes_of(graph, context.store, EmitOptions(sizes=sizes_in(options.sizes)))
    found = chosen(graph, options.select, lambda n: n.id in able, "computed in parts by hardware")
    wanted = Parallel(options.inputs, options.outputs, options.tokens)
    for node in found:
        for title, size in zip(("inputs", "outputs", "tokens"), able[node.id], strict=True):
            if size % getattr(wanted, title):
                fits = ", ".join(map(str, divisors(size)))
                what = "rows" if title == "tokens" else title
                text = f"{node.id} has {size} {what}; {getattr(wanted, title)} at once do not divide them."
                raise PassError(text, f"Choose one of {fits}.", node.id)
    after = graph.replace(*(replace(n, parallel=wanted) for n in found))
    rows = tuple({"node": n.id, "parallel": wanted.label} for n in found)
    return after, Report("parallelize", rows, {"nodes": len(rows)})


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """Where to stop."""

    multipliers: int = field(default=64, metadata={"min": 1, "help": "products in a cycle that the design may compute"})
    interval: int = field(default=0, metadata={"min": 0, "help": "cycles a sample that are short enough; 0 = any"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})


@transform("balance_parallelism", "Balance hardware parallelism", BalanceOptions)
def balance_parallelism(graph: Graph, options: BalanceOptions, context: Context) -> tuple[Graph, Report]:
    """Start with everything folded; give the slowest node the next larger parallelism, as long as the budget lasts."""
    from verilog.lower import unbuffered

    emit = EmitOptions(sizes=sizes_in(options.sizes))
    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    design, able = unbuffered(folded, context.store, emit)
    found = balanced(design, able, options.multipliers, options.interval)
    after = folded.replace(*(replace(folded.nodes[name], parallel=p) for name, p in found.chosen.items()))
    rows = tuple(
        {"node": name, "parallel": found.chosen.get(name, Parallel()).label, "cycles": found.cycles[name]}
        for name in able
    )
    summary = {"multipliers": found.multipliers, "interval": found.interval, "bottleneck": found.bottleneck}
    return after, Report("balance_parallelism", rows, summary)
