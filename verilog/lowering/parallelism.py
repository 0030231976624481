"""Balanced parallelism: greedily grow the slowest node by the smallest step; and its front of area and interval."""

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
Progress = Callable[[int, int], None]  # completed points, all points


@dataclass(frozen=True, slots=True)
class Balanced:
    """Parallelism of the nodes: cycles per frame of each, products per cycle, and the slowest node."""

    chosen: dict[str, Parallel]
    cycles: dict[str, int]
    multipliers: int
    interval: int
    bottleneck: str


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A balanced design: `balance_parallelism` with as many `multipliers` gives the same parallelism.

    `interval`: cycles of the slowest engine, `bottleneck` its node; `area`: estimate, of which `fifos` is for FIFOs.
    """

    parallelism: dict[str, Parallel]
    multipliers: int
    interval: int
    area: Area
    fifos: Area
    bottleneck: str


def divisors(size: int) -> tuple[int, ...]:
    """Divisors in ascending order."""
    small = [n for n in range(1, math.isqrt(size) + 1) if size % n == 0]
    return tuple(sorted({*small, *(size // n for n in small)}))


def cycles_of(design: Design) -> dict[str, int]:
    """Node → cycles per frame of its slowest engine."""
    cycles: dict[str, int] = {}
    for instance in design.instances:
        slow = max((e.steps for e in instance.engines()), default=0)
        cycles[instance.node] = max(cycles.get(instance.node, 0), slow)
    return cycles


def balanced(design: Design, sizes: Sizes, budget: int, target: int = 0) -> Balanced:
    """The fastest parallelism within `budget` multipliers; stops at an interval of `target` cycles.

    `design`: the fully folded one.
    """
    folded = cycles_of(design)
    best = None
    for step in _greedy_steps(folded, sizes):
        if best is not None and step.multipliers > budget:
            break
        best = step
        if best.interval <= target:
            break
    assert best is not None  # the folded design comes first
    unfolded = {n: 0 for n in folded if n not in best.cycles}
    chosen = {n: p for n, p in best.chosen.items() if p != Parallel()}
    return replace(best, chosen=chosen, cycles=best.cycles | unfolded)


def _greedy_steps(folded: Mapping[str, int], sizes: Sizes) -> Iterator[Balanced]:
    """The folded design, then designs with the slowest node one step larger, until it cannot grow."""
    chosen = {name: Parallel() for name in sizes}
    spent = len(sizes)
    while True:
        cycles = {name: -(-folded.get(name, 0) // product(chosen[name])) for name in sizes}
        slowest = max(cycles, key=lambda n: cycles[n], default="")
        yield Balanced(dict(chosen), cycles, spent, max(cycles.values(), default=0), slowest)
        grown = larger(chosen[slowest], sizes[slowest]) if slowest else None
        if grown is None:
            return
        spent += product(grown) - product(chosen[slowest])
        chosen[slowest] = grown


def balance_front(
    graph: Graph, store: WeightStore, options: EmitOptions, max_points: int = 24,
    progress: Progress = lambda done, count: None,
) -> list[FrontPoint]:  # fmt: skip
    """Area against interval: at most `max_points` balanced designs from fully folded to fully parallel.

    Each is lowered and scheduled, so that windows, casts, changes of width and FIFOs count as in the emitted design;
    designs that are no faster than a smaller one are left out.
    """
    from espalier.verilog.lowering.lower import unbuffered
    from espalier.verilog.timing.buffering import buffered

    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    design, sizes = unbuffered(folded, store, options)
    steps = _thinned(_pareto(list(_greedy_steps(cycles_of(design), sizes))), max_points)
    points: list[FrontPoint] = []
    for k, step in enumerate(steps):
        progress(k, len(steps))
        chosen = {n: p for n, p in step.chosen.items() if p != Parallel()}
        grown = unbuffered(folded.replace(*(replace(folded.nodes[n], parallel=p) for n, p in chosen.items())),
                           store, options)[0]  # fmt: skip
        cycles = cycles_of(grown)
        slowest = max(cycles, key=lambda n: cycles[n], default="")
        interval = cycles.get(slowest, 0)
        if points and interval >= points[-1].interval:
            continue
        instances = buffered(grown).instances
        fifos = total(tuple(i for i in instances if isinstance(i, Fifo)))
        points.append(FrontPoint(chosen, step.multipliers, interval, total(instances), fifos, slowest))
    progress(len(steps), len(steps))
    return points


def _pareto(steps: list[Balanced]) -> list[Balanced]:
    """The smallest step of each interval."""
    front = steps[:1]
    for step in steps[1:]:
        if step.interval < front[-1].interval:
            front.append(step)
    return front


def _thinned(steps: list[Balanced], max_points: int) -> list[Balanced]:
    """At most `max_points` steps with both ends, evenly spaced in the logarithm of the interval."""
    if len(steps) <= max_points:
        return steps
    low, high = math.log(max(steps[-1].interval, 1)), math.log(steps[0].interval)
    targets = [math.exp(high + (low - high) * k / (max_points - 1)) for k in range(max_points)]
    picked = {min(range(len(steps)), key=lambda i: abs(math.log(max(steps[i].interval, 1) / w))) for w in targets}
    return [steps[i] for i in sorted(picked | {0, len(steps) - 1})][-max_points:]


def product(parallel: Parallel) -> int:
    """Products per cycle."""
    return parallel.inputs * parallel.outputs * parallel.tokens


def larger(now: Parallel, sizes: tuple[int, int, int]) -> Parallel | None:
    """The next larger parallelism of a node: the axis whose next divisor has the smallest ratio.

    Rows come last, since each needs another set of accumulators.
    """
    steps = [(n, "inputs") for n in _next(now.inputs, sizes[0])] + [
        (n, "outputs") for n in _next(now.outputs, sizes[1])
    ]
    steps = steps or [(n, "tokens") for n in _next(now.tokens, sizes[2])]
    if not steps:
        return None
    value, axis = min(steps, key=lambda s: (s[0] / getattr(now, s[1]), getattr(now, s[1])))
    return Parallel(**{"inputs": now.inputs, "outputs": now.outputs, "tokens": now.tokens, axis: value})


def at_most(sizes: tuple[int, int, int], products: int) -> Parallel:
    """The parallelism of a node with at most `products` products per cycle, grown by the smallest steps."""
    now = Parallel()
    while (grown := larger(now, sizes)) is not None and product(grown) <= products:
        now = grown
    return now


def _next(now: int, size: int) -> tuple[int, ...]:
    return tuple(n for n in divisors(size) if n > now and n % now == 0)[:1]
