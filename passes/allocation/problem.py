"""An allocation as a multiple-choice knapsack: groups of options, their costs, and constant costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at, weights_of
from espalier.model.packed.layout import Use, use_at, users_of
from espalier.passes.allocation.decisions import Column, PortRef, Slot, coupled
from espalier.passes.costs.base import Cost, Floats, table, with_candidate
from espalier.passes.score import Score, static_score
from espalier.passes.sensitivity.table import Candidate

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MAX_OPTIONS = 40_000  # of one group


@dataclass(frozen=True, slots=True)
class Group:
    """Slots that are decided together. Option o takes column `picks[s, o]` of slot s, has divergence `kl[o]` and adds
    `amounts[c, o]` to cost c, signed so that lower is better. Dominated options are removed."""

    slots: tuple[Slot, ...]
    picks: Ints
    kl: Floats
    amounts: Floats


class Problem:
    """Groups with costs. `rest[c]`: constant signed amount of cost c."""

    def __init__(self, groups: tuple[Group, ...], rest: Floats, costs: tuple[Cost, ...], graph: Graph) -> None:
        self.groups, self.rest, self.costs, self.graph = groups, rest, costs, graph

    @cached_property
    def size(self) -> int:
        """Maximum number of options of a group."""
        return max(len(g.kl) for g in self.groups)

    @cached_property
    def kl(self) -> Floats:
        """(groups, options); padded with infinity."""
        padded = np.full((len(self.groups), self.size), np.inf)
        for row, group in zip(padded, self.groups, strict=True):
            row[: len(group.kl)] = group.kl
        return padded

    @cached_property
    def amounts(self) -> Floats:
        """(costs, groups, options)."""
        padded = np.full((len(self.costs), len(self.groups), self.size), np.inf)
        for i, group in enumerate(self.groups):
            padded[:, i, : len(group.kl)] = group.amounts
        return padded

    @cached_property
    def least(self) -> Floats:
        """The minimum signed amount of each cost alone."""
        return self.rest + np.array([sum(g.amounts[c].min() for g in self.groups) for c in range(len(self.costs))])

    def figure(self, number: int, amount: float) -> float:
        """A cost's figure from its signed amount."""
        each = self.costs[number]
        assert each.shares is not None
        return each.shares.figure(each.sign * amount, self.graph) + 0.0  # no −0

    def amount(self, number: int, figure: float) -> float:
        """The signed amount of a cost's figure."""
        each = self.costs[number]
        assert each.shares is not None
        return each.sign * each.shares.amount(figure, self.graph)

    def chosen(self, picks: Ints) -> dict[PortRef, Candidate]:
        """Port → candidate, for one option per group."""
        return {
            port: candidates[group.picks[s, pick]]
            for group, pick in zip(self.groups, picks.tolist(), strict=True)
            for s, slot in enumerate(group.slots)
            for port, candidates in zip(slot.places, slot.choices, strict=True)
        }

    def columns(self) -> dict[Column, None]:
        """All columns, in order."""
        return {c: None for g in self.groups for s in g.slots for c in s.columns}


def counted(graph: Graph, slots: Sequence[Slot], costs: Sequence[Cost], score: Score | None = None) -> Problem:
    """The problem of slots of a graph with costs; `score`: the graph's static score, if available."""
    return _Counting(graph, slots, costs).problem(score or static_score(graph))


class _Counting:
    """Computes the contributions of options to costs."""

    def __init__(self, graph: Graph, slots: Sequence[Slot], costs: Sequence[Cost]) -> None:
        self.graph, self.costs, self._slots = graph, tuple(costs), tuple(slots)
        self._users = users_of(graph)

    def problem(self, score: Score) -> Problem:
        """The problem."""
        rest = np.array([self._rest(c, score) for c in self.costs], np.float64)
        groups: list[Group] = []
        for indices in coupled(self._slots, self.costs):
            group = self._group([self._slots[i] for i in indices])
            if isinstance(group, Group):
                groups.append(group)
            else:
                rest += group
        if not groups:
            names = " or ".join(c.name for c in self.costs)
            raise OptionsError(f"No candidate changes {names}.", "Choose other ports or formats.")
        return Problem(tuple(groups), rest, self.costs, self.graph)

    def _rest(self, each: Cost, score: Score) -> float:
        """The constant part of a cost: the true cost without the contributions of the decided ports.

        A cost that is undefined for the present graph is the sum over the other nodes.
        """
        shares = each.shares
        assert shares is not None and each.of is not None
        total = shares.amount(each.of(self.graph, score), self.graph)
        decided = {n for s in self._slots for n, p in s.places if p in shares.ports}
        if total != total and shares.node and not shares.weight:
            return each.sign * sum(shares.node(n, self.graph) for n in self.graph if n.id not in decided)
        if shares.node:
            total -= sum(shares.node(self.graph.nodes[n], self.graph) for n in decided)
        if shares.weight:
            names = {name for s in self._slots for name in s.weights}
            total -= sum(shares.weight(n, self.graph.weights[n], self._users[n]) for n in names)
        return each.sign * total

    def _group(self, slots: Sequence[Slot]) -> Group | Floats:
        """A group; or its constant amounts if its choice changes no cost."""
        shape = tuple(len(s.columns) for s in slots)
        if math.prod(shape) > MAX_OPTIONS:
            names = ", ".join(n for s in slots for n, _ in s.places[:1])
            raise OptionsError(f"{math.prod(shape)} combinations are too many to decide {names} together.",
                               "Choose fewer formats or ports.")  # fmt: skip
        kl = np.zeros(shape)
        for axis, slot in enumerate(slots):
            kl = kl + _along(np.array(slot.kl), axis, len(shape))
        amounts = np.stack([c.sign * self._amounts(c, slots, shape) for c in self.costs])
        flat, sums = kl.reshape(-1), amounts.reshape(len(self.costs), -1)
        if flat.size > 1 and np.array_equal(sums.min(1), sums.max(1)):
            return sums[:, 0]
        kept = undominated(flat, sums)
        picks = np.stack(np.unravel_index(kept, shape)).astype(np.int64)
        return Group(tuple(slots), picks, flat[kept], sums[:, kept])

    def _amounts(self, each: Cost, slots: Sequence[Slot], shape: tuple[int, ...]) -> Floats:
        """Contribution of a group to a cost, for every option; one axis per slot."""
        shares = each.shares
        assert shares is not None
        sums = np.zeros(shape)
        for axis, slot in enumerate(slots):
            if shares.weight:
                for name in slot.weights:
                    sums = sums + _along(self._stored(each, slot, name), axis, len(shape))
        if shares.node:
            for node in dict.fromkeys(n for s in slots for n, p in s.places if p in shares.ports):
                sums = sums + self._computed(each, node, slots)
        return sums

    def _stored(self, each: Cost, slot: Slot, name: str) -> Floats:
        """Contribution of a weight of the slot, for each column."""
        assert each.shares is not None and each.shares.weight is not None
        weigh, weight = each.shares.weight, self.graph.weights[name]
        own = [(self.graph.nodes[n], p, c) for (n, p), c in zip(slot.places, slot.choices, strict=True)
               if weight_at(self.graph.nodes[n], p, self.graph) == name]  # fmt: skip
        others = self._others(name, {(n.id, p) for n, p, _ in own})
        return np.array([
            weigh(name, weight, [*(use_at(with_candidate(n, p, c[j]), p, name) for n, p, c in own), *others])
            for j in range(len(slot.columns))
        ])  # fmt: skip

    def _others(self, name: str, own: set[PortRef]) -> list[Use]:
        """Uses of a weight at ports that are not decided."""
        if len(self._users[name]) == len(own):
            return []
        return [use_at(n, p, name) for n in self.graph for p, weight in weights_of(n, self.graph)
                if weight == name and (n.id, p) not in own]  # fmt: skip

    def _computed(self, each: Cost, node: str, slots: Sequence[Slot]) -> Floats:
        """Contribution of a node, for every combination of its ports' slots; other slots' axes have size 1."""
        assert each.shares is not None
        own = [(axis, p, s.choices[s.places.index((n, p))]) for axis, s in enumerate(slots)
               for n, p in s.places if n == node and p in each.shares.ports]  # fmt: skip
        axes = [axis for axis, _, _ in own]
        if len(set(axes)) < len(axes):  # one shared weight at two ports of a node
            raise OptionsError(f"{node} has one weight at two ports.", "Deselect one of the ports.", node)
        values = table(each.shares, self.graph.nodes[node], self.graph, [p for _, p, _ in own], [c for *_, c in own])
        shape = [1] * len(slots)
        for axis, _, candidates in own:
            shape[axis] = len(candidates)
        return values.reshape(shape)  # `own` is in the order of the axes


def undominated(kl: Floats, amounts: Floats) -> Ints:
    """Indices of the options that are not dominated; of equal ones the first."""
    if len(amounts) == 1:
        order = np.lexsort((kl, amounts[0]))
        best = np.minimum.accumulate(kl[order])
        kept = np.ones(len(order), bool)
        kept[1:] = kl[order][1:] < best[:-1]
        return np.sort(order[kept])
    points = np.vstack([kl[None], amounts])
    alive = np.lexsort(points[::-1])  # dominating options come first
    points = points[:, alive]
    kept = np.ones(len(alive), bool)
    for i in range(len(alive)):
        if kept[i]:
            beaten: Bools = np.all(points[:, i : i + 1] <= points, axis=0)
            beaten[: i + 1] = False
            kept &= ~beaten
    return np.sort(alive[kept])


def _along(values: Floats, axis: int, axes: int) -> Floats:
    return values.reshape([-1 if i == axis else 1 for i in range(axes)])
