"""The heads, neurons, channels and widths of a model, their tensors, and what blocks their removal."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, NoOptions, Report, Row, analysis
from espalier.passes.structure.blocks import chains
from espalier.passes.structure.masks import dead
from espalier.passes.structure.sets import Structure, Units, structure_of
from espalier.passes.structure.summary import describe


@analysis("structure", "Structure", instant=True)
def structure(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """One row per set of coupled units: heads, neurons, channels, widths, and chains of layers.

    `members`: the dimensions of weights that contain them; `blocked`: the node that prevents their removal, if any;
    `masked`: number of fully masked units.
    """
    sets_of = structure_of(graph)
    sets = [s for s in sets_of.sets if s.kind != "other" or not s.blocked]
    rows = [_row(s, sets_of, context) for s in sets]
    rows += [_layers(c.path, len(c.blocks), [b.why for b in c.blocks], c.blocks[0].nodes[0]) for c in chains(graph)]
    free = {kind: sum(r["units"] for r in rows if r["kind"] == kind and not r["blocked"])
            for kind in dict.fromkeys(r["kind"] for r in rows)}  # fmt: skip
    return graph, Report("structure", tuple(rows), {**free, "blocked": sum(bool(r["blocked"]) for r in rows)})


def _row(units: Units, sets_of: Structure, context: Context) -> Row:
    reason = units.blocked
    masked = 0 if reason else int(dead(sets_of, units, context.store).sum())
    return {"node": units.first.node, "kind": units.kind, "units": units.size, "masked": masked,
            "members": describe(units, sets_of), "blocked": f"{reason.node}: {reason.text}" if reason else "",
            "norm": units.norm or ""}  # fmt: skip


def _layers(path: str, count: int, whys: list[str], node: str) -> Row:
    why = next((w for w in whys if w), "")
    members = f"{path}: {count} layers" + (f", {sum(map(bool, whys))} of them blocked" if why else "")
    return {"node": node, "kind": "layers", "units": count - sum(map(bool, whys)), "masked": 0, "members": members,
            "blocked": why if all(whys) else "", "norm": ""}  # fmt: skip
