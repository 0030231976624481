"""Which nodes get more parallelism: greedily the slowest one, by the smallest step that helps; and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from espalier.model.graph.meta import Parallel
from espalier.verilog.area.resources import Area
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.template import total
from espalier.verilog.templates.fifo import Fifo

if TYPE_CHECKING:
    from espalier.model.graph.graph import Graph
    from espalier.model.store.weights import WeightStore
    from espalier.verilog.design.options import EmitOptions

Sizes = Mapping[str, tuple[int, int, int]]  # inputs, outputs, rows of a node
Heard = Callable[[int, int], None]  # points done, points in all


@dataclass(frozen=True, slots=True)
class Balanced:
    """The parallelism of nodes, and what it comes to: cycles of each in a frame, products in a cycle, the slowest."""

    chosen: dict[str, Parallel]
    cycles: dict[str, int]
    multipliers: int
    interval: int
    bottleneck: str


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A balanced design: `balance_parallelism` with so many `multipliers` gives the same parallelism.

    `interval`: cycles of the slowest engine, `bottleneck` its node; `area`: estimated, `fifos`: what of it waits.
    """

    parallelism: dict[str, Parallel]
    multipliers: int
    interval: int
    area: Area
    fifos: Area
    bottleneck: str


def divisors(size: int) -> tuple[int, ...]:
    """All of them, rising."""
    small = [n for n in range(1, math.isqrt(size) + 1) if size % n == 0]
    return tuple(sorted({*small, *(size // n for n in small)}))


def cycles_of(design: Design) -> dict[str, int]:
    """Node → cycles of a frame in its slowest engine."""
    found: dict[str, int] = {}
    for instance in design.instances:
        slow = max((e.steps for e in instance.engines()), default=0)
        found[instance.node] = max(found.get(instance.node, 0), slow)
    return found


def balanced(design: Design, able: Sizes, budget: int, enough: int = 0) -> Balanced:
    """`design`: the fully folded one; a node's cycles shrink with its parallelism."""
    folded = cycles_of(design)
    found = None
    for each in _grown(folded, able):
        if found is not None and each.multipliers > budget:
            break
        found = each
        if found.interval <= enough:
            break
    assert found is not None  # the folded design comes first
    rest = {n: 0 for n in folded if n not in found.cycles}
    chosen = {n: p for n, p in found.chosen.items() if p != Parallel()}
    return replace(found, chosen=chosen, cycles=found.cycles | rest)


def _grown(folded: Mapping[str, int], able: Sizes) -> Iterator[Balanced]:
    """The folded design, then each with the slowest node a step larger, until that cannot grow."""
    chosen = {name: Parallel() for name in able}
    spent = len(able)
    while True:
        cycles = {name: -(-folded.get(name, 0) // product(chosen[name])) for name in able}
        slowest = max(cycles, key=lambda n: cycles[n], default="")
        yield Balanced(dict(chosen), cycles, spent, max(cycles.values(), default=0), slowest)
        grown = larger(chosen[slowest], able[slowest]) if slowest else None
        if grown is None:
            return
        spent += product(grown) - product(chosen[slowest])
        chosen[slowest] = grown


def balance_front(
    graph: Graph, store: WeightStore, options: EmitOptions, most: int = 24, heard: Heard = lambda done, count: None
) -> list[FrontPoint]:
    """Area against interval: at most `most` balanced designs from fully folded to as parallel as it helps.

    Each is lowered and scheduled, so windows, casts, changes of width and FIFOs count as in the design itself; what is
    no faster than a smaller one is left out.
    """
    from espalier.verilog.lowering.lower import unbuffered
    from espalier.verilog.timing.buffering import buffered

    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    design, able = unbuffered(folded, store, options)
    steps = _spread(_faster(list(_grown(cycles_of(design), able))), most)
    found: list[FrontPoint] = []
    for k, step in enumerate(steps):
        heard(k, len(steps))
        chosen = {n: p for n, p in step.chosen.items() if p != Parallel()}
        made = unbuffered(folded.replace(*(replace(folded.nodes[n], parallel=p) for n, p in chosen.items())),
                          store, options)[0]  # fmt: skip
        cycles = cycles_of(made)
        slowest = max(cycles, key=lambda n: cycles[n], default="")
        interval = cycles.get(slowest, 0)
        if found and interval >= found[-1].interval:
            continue
        whole = buffered(made).instances
        fifos = total(tuple(i for i in whole if isinstance(i, Fifo)))
        found.append(FrontPoint(chosen, step.multipliers, interval, total(whole), fifos, slowest))
    heard(len(steps), len(steps))
    return found


def _faster(steps: list[Balanced]) -> list[Balanced]:
    """Of those of one interval the smallest."""
    kept = steps[:1]
    for step in steps[1:]:
        if step.interval < kept[-1].interval:
            kept.append(step)
    return kept


def _spread(steps: list[Balanced], most: int) -> list[Balanced]:
    """At most so many, both ends among them, in equal ratios of the interval."""
    if len(steps) <= most:
        return steps
    low, high = math.log(max(steps[-1].interval, 1)), math.log(steps[0].interval)
    wanted = [math.exp(high + (low - high) * k / (most - 1)) for k in range(most)]
    picked = {min(range(len(steps)), key=lambda i: abs(math.log(max(steps[i].interval, 1) / w))) for w in wanted}
    return [steps[i] for i in sorted(picked | {0, len(steps) - 1})][-most:]


def product(parallel: Parallel) -> int:
    """Products in a cycle."""
    return parallel.inputs * parallel.outputs * parallel.tokens


def larger(now: Parallel, sizes: tuple[int, int, int]) -> Parallel | None:
    """The next larger parallelism of a node: the axis whose next divisor multiplies the least.

    Rows only when both are whole, since each costs another set of accumulators and gains nothing else.
    """
    steps = [(n, "inputs") for n in _next(now.inputs, sizes[0])] + [
        (n, "outputs") for n in _next(now.outputs, sizes[1])
    ]
    steps = steps or [(n, "tokens") for n in _next(now.tokens, sizes[2])]
    if not steps:
        return None
    value, axis = min(steps, key=lambda s: (s[0] / getattr(now, s[1]), getattr(now, s[1])))
    given = {"inputs": now.inputs, "outputs": now.outputs, "tokens": now.tokens, axis: value}
    return Parallel(**given)


def at_most(sizes: tuple[int, int, int], products: int) -> Parallel:
    """The parallelism of a node with at most so many products a cycle, grown by the smallest steps."""
    now = Parallel()
    while (grown := larger(now, sizes)) is not None and product(grown) <= products:
        now = grown
    return now


def _next(now: int, size: int) -> tuple[int, ...]:
    return tuple(n for n in divisors(size) if n > now and n % now == 0)[:1]
