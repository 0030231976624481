"""The decisions of an allocation: ports decided together (shared weights, tied nodes), and their candidates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from espalier.model.errors import OptionsError, nearest
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.passes.choices.edits import bare
from espalier.passes.costs.base import Cost
from espalier.passes.sensitivity.table import Candidate, Sensitivity

PortRef = tuple[str, str]  # node, port
Column = tuple[str, float, str]  # a candidate without fitted parameters: format, sparsity, method
FLOAT = Candidate()


@dataclass(frozen=True, slots=True)
class Slot:
    """Ports with the same column of candidates: choices[i][j] is candidate j at port i, kl[j] the sum of divergences.

    `weights`: stored weights of these ports.
    """

    places: tuple[PortRef, ...]
    columns: tuple[Column, ...]
    choices: tuple[tuple[Candidate, ...], ...]
    kl: tuple[float, ...]
    weights: tuple[str, ...] = ()


class Union:
    """Disjoint sets (union–find)."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """The representative of an element's set."""
        while (above := self._parent.setdefault(thing, thing)) != thing:
            self._parent[thing] = self._parent.setdefault(above, above)
            thing = above
        return thing

    def join(self, first: Hashable, second: Hashable) -> None:
        """Merge the sets of two elements."""
        self._parent[self.root(second)] = self.root(first)


def column(candidate: Candidate) -> Column:
    """A candidate without its binary point or exponent bias, which is fitted to each port."""
    return bare(candidate.format), candidate.sparsity, candidate.method if candidate.sparsity else ""


def column_title(candidate: Candidate) -> str:
    """Label of a column: `int 4`, `mxint4/32 · 50% l1`."""
    fmt = candidate.format
    if fmt is None or not fmt.shift:
        return candidate.label
    usual = {f.name: f.default for f in fields(fmt)}[fmt.shift]
    plain = replace(fmt, **{fmt.shift: usual}).label
    words = plain.partition("/")[0] if fmt.name == "integer" else plain  # "int 8/4" without its binary point
    return words if not candidate.sparsity else f"{words} · {replace(candidate, format=None).label}"


def slots(
    table: Sequence[Sensitivity], graph: Graph, allowed: Iterable[Column] | None = None, *, whole: bool = True,
    tied: Sequence[Sequence[str]] = (), ports: Sequence[str] = (),
) -> tuple[Slot, ...]:  # fmt: skip
    """The slots of a table's rows on a graph, in the table's order; raises OptionsError if there are none.

    `allowed`: columns to choose from, all by default. `whole`: include float. `tied`: nodes whose ports get the same
    columns. `ports`: ports to decide, all by default.
    """
    present = [r for r in table if r.node in graph.nodes]
    rows = [r for r in present if not ports or r.port in ports]
    if not present:
        raise OptionsError("There are no sensitivities of this model.", "Run the sensitivity first.")
    if not rows:
        raise OptionsError(
            "No port is selected.", f"Choose some of {', '.join(dict.fromkeys(r.port for r in present))}."
        )
    sets = _together(rows, graph, tied)
    wanted = None if allowed is None else set(allowed)
    gathered: dict[Hashable, list[Sensitivity]] = {}
    for row in rows:
        gathered.setdefault(sets.root((row.node, row.port)), []).append(row)
    return tuple(_slot(group, graph, wanted, whole) for group in gathered.values())


def _together(rows: Sequence[Sensitivity], graph: Graph, tied: Sequence[Sequence[str]]) -> Union:
    """Ports that are decided together: of one weight, and the same port of tied nodes."""
    numbers = {name: i for i, group in enumerate(tied) for name in group}
    for name in numbers:
        if name not in graph.nodes:
            raise OptionsError(f"tied: there is no node {name!r}.", nearest(name, graph.nodes))
    sets = Union()
    for row in rows:
        port = (row.node, row.port)
        if weight := weight_at(graph[row.node], row.port, graph):
            sets.join(("weight", weight), port)
        if row.node in numbers:
            sets.join(("tied", numbers[row.node], row.port), port)
    return sets


def _slot(rows: Sequence[Sensitivity], graph: Graph, wanted: set[Column] | None, whole: bool) -> Slot:
    each = [_candidates(r, whole) for r in rows]
    common = [c for c in each[0] if all(c in h for h in each) and (wanted is None or c in wanted or c == column(FLOAT))]
    if not whole and (wanted is None or column(FLOAT) not in wanted):
        common = [c for c in common if c != column(FLOAT)]
    places = tuple((r.node, r.port) for r in rows)
    if not common:
        names = ", ".join(f"{n}.{p}" for n, p in places[:3])
        raise OptionsError(f"No candidate fits {names}.", "Add formats, or float.", rows[0].node)
    kl = tuple(sum(h[c][1] for h in each) for c in common)
    choices = tuple(tuple(h[c][0] for c in common) for h in each)
    weights = dict.fromkeys(w for n, p in places if (w := weight_at(graph[n], p, graph)))
    return Slot(places, tuple(common), choices, kl, tuple(weights))


def _candidates(row: Sensitivity, whole: bool) -> Mapping[Column, tuple[Candidate, float]]:
    """Column → (candidate, divergence), of candidates with a finite divergence."""
    pairs = ((c, kl) for c, kl in zip(row.candidates, row.known, strict=True) if math.isfinite(kl))
    return ({column(FLOAT): (FLOAT, 0.0)} if whole else {}) | {column(c): (c, max(kl, 0.0)) for c, kl in pairs}


def coupled(slots_: Sequence[Slot], costs: Sequence[Cost]) -> list[list[int]]:
    """Indices of slots that have to be decided together, because a cost depends on several of their ports."""
    sets = Union()
    at = {port: i for i, s in enumerate(slots_) for port in s.places}
    for each in costs:
        ports = each.shares.ports if each.shares and each.shares.node else ()
        for node in dict.fromkeys(n for n, _ in at) if len(ports) > 1 else ():
            indices = [at[node, p] for p in ports if (node, p) in at]
            for other in indices[1:]:
                sets.join(indices[0], other)
    groups: dict[Hashable, list[int]] = {}
    for i in range(len(slots_)):
        groups.setdefault(sets.root(i), []).append(i)
    return list(groups.values())
