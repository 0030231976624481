"""The strategies of a node over a mesh: for each axis, which index is split, and what that makes of its tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from espalier.passes.sharding.collectives import Placements
from espalier.passes.sharding.factors import REPLICATED, Call, Factors, used
from espalier.passes.sharding.shape_factors import factors_of


@dataclass(frozen=True, slots=True)
class Strategy:
    """Placements of all ports. `names`: of the strategy on each axis. `gradients`: placements in which the gradients of
    inputs arise. `share`: of the node's work that each rank has. `synchronised`: axes along which statistics are.
    """

    names: tuple[str, ...]
    ports: dict[str, Placements]
    gradients: dict[str, Placements]
    share: float = 1.0
    synchronised: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Of the axes that are split, in words: `data × column`."""
        names = [n for n in self.names if n != REPLICATED]
        return " × ".join(names) or REPLICATED


@dataclass(frozen=True, slots=True)
class AxisRule:
    """A strategy on one axis. `index`: that is split, empty for none."""

    name: str
    index: str
    ports: dict[str, str]
    gradients: dict[str, str]
    synchronised: bool = False


def axis_rules(call: Call, factors: Factors) -> Iterator[AxisRule]:
    """All strategies on one axis, whatever its size: replicated, each index split, partial sums passed on."""
    outs = set(call.outs)
    whole = dict.fromkeys(call.shapes, "R")
    yield AxisRule(REPLICATED, "", whole, {p: "R" for p in whole if p not in outs})
    for index in used(factors):
        ports = dict(whole)
        for port, dims in factors.ports.items():
            if index in dims:
                ports[port] = f"S{dims.index(index)}"
            elif port in outs and index in factors.summed:
                ports[port] = "P"
        name = factors.names.get(index, "dimension")
        gradients = _gradients(ports, outs)
        if index in factors.summed:  # what is whole is added once, so each rank has its whole gradient
            gradients |= {p: "R" for p, at in ports.items() if at == "R" and p not in outs}
        yield AxisRule(name, index, ports, gradients, index in factors.synchronised)
    for group in factors.linear:
        ports = {p: "P" if p in group or p in outs else "R" for p in whole}
        yield AxisRule("partial", "", ports, _gradients(ports, outs))


def _gradients(ports: dict[str, str], outs: set[str]) -> dict[str, str]:
    """A split input has a split gradient, a partial sum a whole one; that of a whole input is a sum over ranks."""
    return {p: "P" if at == "R" else "R" if at == "P" else at for p, at in ports.items() if p not in outs}


def strategies(call: Call, mesh: Sequence[int]) -> list[Strategy]:
    """All strategies of a call over the mesh whose splits are even."""
    factors = factors_of(call)
    rules = list(axis_rules(call, factors)) if factors else [next(axis_rules(call, Factors({}, {}, {})))]
    sizes = factors.sizes if factors else {}
    return [_combined(chosen, mesh) for chosen in itertools.product(rules, repeat=len(mesh))
            if _even(chosen, mesh, sizes)]  # fmt: skip


def _even(chosen: Sequence[AxisRule], mesh: Sequence[int], sizes: dict[str, int]) -> bool:
    """Whether each split index is divisible by the ranks that split it; an axis of one rank splits nothing."""
    ways: dict[str, int] = {}
    for rule, n in zip(chosen, mesh, strict=True):
        if n == 1 and rule.name != REPLICATED:
            return False
        if rule.index:
            ways[rule.index] = ways.get(rule.index, 1) * n
    return all(sizes[index] % n == 0 for index, n in ways.items())


def _combined(chosen: Sequence[AxisRule], mesh: Sequence[int]) -> Strategy:
    ports = {p: tuple(r.ports[p] for r in chosen) for p in chosen[0].ports}
    gradients = {p: tuple(r.gradients[p] for r in chosen) for p in chosen[0].gradients}
    split = math.prod(n for r, n in zip(chosen, mesh, strict=True) if r.index)
    synchronised = tuple(i for i, r in enumerate(chosen) if r.synchronised)
    return Strategy(tuple(r.name for r in chosen), ports, gradients, 1 / split, synchronised)


def stored_placements(shape: tuple[int, ...], mesh: Sequence[int]) -> list[Placements]:
    """All placements in which a weight can be stored: whole or evenly split along its dimensions."""
    return placements(shape, mesh, range(len(shape)))


def placements(shape: tuple[int, ...], mesh: Sequence[int], dims: Sequence[int]) -> list[Placements]:
    """All placements without partial sums that split only these dimensions, evenly."""
    single = [["R", *(f"S{d}" for d in dims)] if n > 1 else ["R"] for n in mesh]
    found: list[Placements] = []
    for each in itertools.product(*single):
        ways: dict[str, int] = {}
        for p, n in zip(each, mesh, strict=True):
            ways[p] = ways.get(p, 1) * n
        if all(p == "R" or (shape[int(p[1:])] % n == 0 and shape[int(p[1:])] > 0) for p, n in ways.items()):
            found.append(each)
    return found
