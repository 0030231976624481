"""Where an allocation decides: places that go together (shared weights, tied nodes), and what each of them may take."""

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

Place = tuple[str, str]  # node, port
Column = tuple[str, float, str]  # a candidate without what is fitted to each place: format, sparsity, method
FLOAT = Candidate()


@dataclass(frozen=True, slots=True)
class Slot:
    """Places that take the same column of candidates: choices[i][j] is candidate j at place i, kl[j] what all cost.

    `weights`: the stored weights among them.
    """

    places: tuple[Place, ...]
    columns: tuple[Column, ...]
    choices: tuple[tuple[Candidate, ...], ...]
    kl: tuple[float, ...]
    weights: tuple[str, ...] = ()


class Union:
    """Things joined to sets, each known by one of its members."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """The member that a thing's set is known by."""
        while (above := self._parent.setdefault(thing, thing)) != thing:
            self._parent[thing] = self._parent.setdefault(above, above)
            thing = above
        return thing

    def join(self, first: Hashable, second: Hashable) -> None:
        """One set of both."""
        self._parent[self.root(second)] = self.root(first)


def column(candidate: Candidate) -> Column:
    """What a candidate is in every place alike: its binary point or exponent bias is fitted to each."""
    return bare(candidate.format), candidate.sparsity, candidate.method if candidate.sparsity else ""


def column_title(candidate: Candidate) -> str:
    """A column in words: `int 4`, `mxint4/32 · 50% l1`."""
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
    """The slots of a table's rows on a graph, in the table's order; raises OptionsError where nothing is left.

    `allowed`: the columns that compete, all by default. `whole`: float competes too. `tied`: nodes whose ports take
    the same columns. `ports`: those that are decided on, all by default.
    """
    known = [r for r in table if r.node in graph.nodes]
    rows = [r for r in known if not ports or r.port in ports]
    if not known:
        raise OptionsError("There is no sensitivity of any layer of this model.", "Run the sensitivity first.")
    if not rows:
        raise OptionsError("No port competes.", f"Choose some of {', '.join(dict.fromkeys(r.port for r in known))}.")
    sets = _together(rows, graph, tied)
    wanted = None if allowed is None else set(allowed)
    gathered: dict[Hashable, list[Sensitivity]] = {}
    for row in rows:
        gathered.setdefault(sets.root((row.node, row.port)), []).append(row)
    return tuple(_slot(held, graph, wanted, whole) for held in gathered.values())


def _together(rows: Sequence[Sensitivity], graph: Graph, tied: Sequence[Sequence[str]]) -> Union:
    """Places that go together: those of one weight, and those of tied nodes at the same port."""
    numbers = {name: i for i, group in enumerate(tied) for name in group}
    for name in numbers:
        if name not in graph.nodes:
            raise OptionsError(f"tied: there is no node {name!r}.", nearest(name, graph.nodes))
    found = Union()
    for row in rows:
        place = (row.node, row.port)
        if weight := weight_at(graph[row.node], row.port, graph):
            found.join(("weight", weight), place)
        if row.node in numbers:
            found.join(("tied", numbers[row.node], row.port), place)
    return found


def _slot(rows: Sequence[Sensitivity], graph: Graph, wanted: set[Column] | None, whole: bool) -> Slot:
    held = [_known(r, whole) for r in rows]
    common = [c for c in held[0] if all(c in h for h in held) and (wanted is None or c in wanted or c == column(FLOAT))]
    if not whole and (wanted is None or column(FLOAT) not in wanted):
        common = [c for c in common if c != column(FLOAT)]
    places = tuple((r.node, r.port) for r in rows)
    if not common:
        names = ", ".join(f"{n}.{p}" for n, p in places[:3])
        raise OptionsError(f"No candidate fits {names}.", "Add formats, or float.", rows[0].node)
    kl = tuple(sum(h[c][1] for h in held) for c in common)
    choices = tuple(tuple(h[c][0] for c in common) for h in held)
    weights = dict.fromkeys(w for n, p in places if (w := weight_at(graph[n], p, graph)))
    return Slot(places, tuple(common), choices, kl, tuple(weights))


def _known(row: Sensitivity, whole: bool) -> Mapping[Column, tuple[Candidate, float]]:
    """Column → the candidate and what it costs; what is not known, or breaks the outputs, is no choice."""
    found = {column(c): (c, max(kl, 0.0)) for c, kl in zip(row.candidates, row.known, strict=True) if math.isfinite(kl)}
    return ({column(FLOAT): (FLOAT, 0.0)} if whole else {}) | found


def coupled(slots_: Sequence[Slot], costs: Sequence[Cost]) -> list[list[int]]:
    """Numbers of slots that have to be decided together, because a cost looks at several of their ports at once."""
    sets = Union()
    at = {place: i for i, s in enumerate(slots_) for place in s.places}
    for each in costs:
        ports = each.shares.ports if each.shares and each.shares.node else ()
        for node in dict.fromkeys(n for n, _ in at) if len(ports) > 1 else ():
            found = [at[node, p] for p in ports if (node, p) in at]
            for other in found[1:]:
                sets.join(found[0], other)
    groups: dict[Hashable, list[int]] = {}
    for i in range(len(slots_)):
        groups.setdefault(sets.root(i), []).append(i)
    return list(groups.values())
