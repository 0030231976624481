"""Sets of units in words, for reports and the inspector."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.passes.structure.axes import numbers
from espalier.passes.structure.sets import Member, Structure, Units

_WORDS = {
    "heads": ("head", "heads"), "queries": ("query of a group", "queries of a group"), "neurons": ("neuron", "neurons"),
    "channels": ("channel", "channels"), "width": ("channel of the width", "channels of the width"),
    "other": ("unit", "units"),
}  # fmt: skip


def amount(held: Units, member: Member, structure: Structure) -> str:
    """ "12 heads × 64" of a dimension of 768; "3 072 neurons" where each is one place."""
    places = int((numbers(structure.dims(member), held.axis) >= 0).sum())
    each = places // held.size
    count = f"{held.size} {_WORDS[held.kind][held.size != 1]}"
    return count if each == 1 else f"{count} × {each}"


def describe(held: Units, structure: Structure) -> str:
    """The members of a set: "query, key, value rows; output.dense columns"."""
    parts: list[str] = []
    for role in ("rows", "columns", "own"):
        names = dict.fromkeys(short(structure.graph.nodes[m.node]) for m in held.members
                              if m.role == role and _told(m, structure.graph))  # fmt: skip
        if names:
            shown = ", ".join([*names][:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            parts.append(f"{shown} {role}" if role != "own" else shown)
    return "; ".join(parts)


def _told(member: Member, graph: Graph) -> bool:
    """Each tensor once: not its bias, nor the node that reads a tensor which a layer takes."""
    if member.port == "bias" or member.port.startswith("running"):
        return False
    node = graph.nodes[member.node]
    return node.call != "get_attr" or member.role == "own"


def short(node: Node) -> str:
    """The last two parts of a module's path that say something, or a function's id."""
    path = node.target if node.call in ("call_module", "get_attr") else node.module_path or node.id
    named = [p for p in path.split(".") if not p.isdigit()]
    return ".".join(named[-2:])


def ties(node: Node, structure: Structure) -> list[tuple[str, str, str]]:
    """(dimension, what lies along it, what it is tied to or what holds it) of a node's weight, for the inspector."""
    found: list[tuple[str, str, str]] = []
    for held in structure.sets:
        for member in held.members:
            if member.node != node.id or member.port not in ("weight", "value"):
                continue
            if held.kind == "other" and held.blocked:
                continue
            reason = held.blocked
            others = describe(held, structure)
            text = f"held by {reason.node}: {reason.text}" if reason else f"tied to {others}"
            found.append((member.role if member.role != "own" else "values", amount(held, member, structure), text))
    return sorted(found, key=lambda f: f[0], reverse=True)  # values, rows, columns
