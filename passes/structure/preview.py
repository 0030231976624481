"""What a structured pruning will take, told before it runs: the units of each set that go, and what holds others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.passes.select import Select, matches
from espalier.passes.structure.blocks import chains
from espalier.passes.structure.scores import Amount, fewest
from espalier.passes.structure.sets import Structure, Units
from espalier.passes.structure.words import describe, short

if TYPE_CHECKING:
    from espalier.passes.choices.prune_structured import PruneStructuredOptions


@dataclass(frozen=True, slots=True)
class Line:
    """A set: where it begins, its units, how many go (None: the scores of all sets decide), and what is to be said."""

    name: str
    units: int
    gone: int | None
    note: str = ""
    node: str = ""
    held: bool = False


def outlook(structure: Structure, options: PruneStructuredOptions) -> list[Line]:
    """A line for each selected set; raises GraphError where the model has none of the kind."""
    if options.what == "layers":
        return _layers(structure.graph, options)
    graph = structure.graph
    sets = [s for s in structure.sets if s.kind == options.what
            and any(matches(graph.nodes[m.node], options.select) for m in s.members)]  # fmt: skip
    if not sets:
        kinds = ", ".join(kinds_of(structure, options.select))
        if options.select.by == "all":
            raise GraphError(f"There are no {options.what} here.", f"It has {kinds}." if kinds else "")
        hint = f"They belong to: {kinds}." if kinds else "Select others, or all."
        raise GraphError(f"The selected nodes have no {options.what}.", hint)
    free = [s for s in sets if not s.blocked]
    amount = Amount(options.ratio, options.count, options.multiple)
    worth = {s: np.arange(s.size, dtype=np.float64) for s in free}
    counts = fewest(worth, {s: np.zeros(s.size, np.bool_) for s in free}, amount)
    known = options.scope == "local"
    return [_line(s, structure, int(counts[s].sum()) if known else None) if s in counts else _line(s, structure, 0)
            for s in sets]  # fmt: skip


def kinds_of(structure: Structure, select: Select) -> tuple[str, ...]:
    """The kinds of units that can be pruned in the selected nodes."""
    graph = structure.graph
    return tuple(sorted({s.kind for s in structure.sets if s.kind != "other" and not s.blocked
                         and any(matches(graph.nodes[m.node], select) for m in s.members)}))  # fmt: skip


def _line(held: Units, structure: Structure, gone: int | None) -> Line:
    node = structure.graph.nodes[held.first.node]
    number = next((p for p in (node.target or node.module_path).split(".") if p.isdigit()), "")
    name = f"{number} · {short(node)}" if number else short(node)
    note = describe(held, structure)
    if held.blocked:
        note = f"held by {held.blocked.node}: {held.blocked.text}"
    elif held.norm:
        note = "norms will see other statistics: fine-tune after"
    return Line(name, held.size, gone, note, held.first.node, held.blocked is not None)


def _layers(graph: Graph, options: PruneStructuredOptions) -> list[Line]:
    found: list[Line] = []
    for chain in chains(graph):
        able = [b for b in chain.blocks if b.branches]
        wanted = options.count or round(options.ratio * len(chain.blocks))
        note = "" if able else "these layers do more than adding to what flows by: use Remove layers"
        gone = min(wanted, len(able), len(chain.blocks) - 1)
        found.append(Line(chain.path, len(chain.blocks), gone, note, chain.blocks[0].nodes[0], not able))
    if not found:
        raise GraphError("There are no repeated residual layers here.", "")
    return found
