"""Which nodes get more parallelism: greedily the slowest one, by the smallest step that helps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.meta import Parallel
from verilog.netlist import Design

Sizes = Mapping[str, tuple[int, int, int]]  # inputs, outputs, rows of a node


@dataclass(frozen=True, slots=True)
class Balanced:
    """The parallelism of nodes, and what it comes to: cycles of each in a frame, products in a cycle, the slowest."""

    chosen: dict[str, Parallel]
    cycles: dict[str, int]
    multipliers: int
    interval: int
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
    chosen = {name: Parallel() for name in able}
    spent = len(able)
    while True:
        cycles = {name: -(-folded.get(name, 0) // product(chosen[name])) for name in able}
        slowest = max(cycles, key=lambda n: cycles[n], default="")
        if not slowest or cycles[slowest] <= enough:
            break
        grown = larger(chosen[slowest], able[slowest])
        if grown is None or spent - product(chosen[slowest]) + product(grown) > budget:
            break
        spent += product(grown) - product(chosen[slowest])
        chosen[slowest] = grown
    rest = {n: c for n, c in folded.items() if n not in able}
    every = {**cycles, **{n: 0 for n in rest if n not in cycles}}
    return Balanced({n: p for n, p in chosen.items() if p != Parallel()}, every, spent,
                    max(cycles.values(), default=0), slowest)  # fmt: skip


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


def _next(now: int, size: int) -> tuple[int, ...]:
    return tuple(n for n in divisors(size) if n > now and n % now == 0)[:1]
