"""Preview of a structured pruning: number of pruned units of each set, and reasons why others are fixed."""

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
from espalier.passes.structure.summary import describe, short

if TYPE_CHECKING:
    from espalier.passes.choices.prune_structured import PruneStructuredOptions


@dataclass(frozen=True, slots=True)
class Line:
    """A set: name, units, pruned units (None: depends on the scores of all sets), note."""

    name: str
    units: int
    gone: int | None
    note: str = ""
    node: str = ""
    held: bool = False


def outlook(structure: Structure, options: PruneStructuredOptions) -> list[Line]:
    """A line for each selected set; raises GraphError if there are none of the kind."""
    if options.what == "layers":
        return _layers(structure.graph, options)
    graph = structure.graph
    sets = [s for s in structure.sets if s.kind == options.what
            and any(matches(graph.nodes[m.node], options.select) for m in s.members)]  # fmt: skip
    if not sets:
        kinds = ", ".join(kinds_of(structure, options.select))
        if options.select.by == "all":
            raise GraphError(f"The model has no {options.what}.", f"It has {kinds}." if kinds else "")
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


def _line(units: Units, structure: Structure, gone: int | None) -> Line:
    node = structure.graph.nodes[units.first.node]
    number = next((p for p in (node.target or node.module_path).split(".") if p.isdigit()), "")
    name = f"{number} · {short(node)}" if number else short(node)
    note = describe(units, structure)
    if units.blocked:
        note = f"fixed by {units.blocked.node}: {units.blocked.text}"
    elif units.norm:
        note = "changes the statistics of norms: fine-tune after"
    return Line(name, units.size, gone, note, units.first.node, units.blocked is not None)


def _layers(graph: Graph, options: PruneStructuredOptions) -> list[Line]:
    lines: list[Line] = []
    for chain in chains(graph):
        maskable = [b for b in chain.blocks if b.branches]
        wanted = options.count or round(options.ratio * len(chain.blocks))
        note = "" if maskable else "these layers are not pure residual branches: use Remove layers"
        gone = min(wanted, len(maskable), len(chain.blocks) - 1)
        lines.append(Line(chain.path, len(chain.blocks), gone, note, chain.blocks[0].nodes[0], not maskable))
    if not lines:
        raise GraphError("There are no repeated residual layers here.", "")
    return lines
