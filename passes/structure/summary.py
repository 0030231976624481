"""Text descriptions of sets of units, for reports and the inspector."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.passes.structure.axes import numbers
from espalier.passes.structure.sets import Member, Structure, Units

_WORDS = {
    "heads": ("head", "heads"), "queries": ("query of a group", "queries of a group"), "neurons": ("neuron", "neurons"),
    "channels": ("channel", "channels"), "width": ("channel of the width", "channels of the width"),
    "other": ("unit", "units"),
}  # fmt: skip


def amount(units: Units, member: Member, structure: Structure) -> str:
    """ "12 heads × 64" for a dimension of 768; "3 072 neurons" with one element each."""
    elements = int((numbers(structure.dims(member), units.axis) >= 0).sum())
    each = elements // units.size
    count = f"{units.size} {_WORDS[units.kind][units.size != 1]}"
    return count if each == 1 else f"{count} × {each}"


def describe(units: Units, structure: Structure) -> str:
    """The members of a set: "query, key, value rows; output.dense columns"."""
    parts: list[str] = []
    for role in ("rows", "columns", "own"):
        names = dict.fromkeys(short(structure.graph.nodes[m.node]) for m in units.members
                              if m.role == role and _is_listed(m, structure.graph))  # fmt: skip
        if names:
            shown = ", ".join([*names][:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            parts.append(f"{shown} {role}" if role != "own" else shown)
    return "; ".join(parts)


def _is_listed(member: Member, graph: Graph) -> bool:
    """Exclude biases, running statistics, and nodes that only read a layer's tensor."""
    if member.port == "bias" or member.port.startswith("running"):
        return False
    node = graph.nodes[member.node]
    return node.call != "get_attr" or member.role == "own"


def short(node: Node) -> str:
    """The last two parts of a module's path that are not numbers, or a function's id."""
    path = node.target if node.call in ("call_module", "get_attr") else node.module_path or node.id
    named = [p for p in path.split(".") if not p.isdigit()]
    return ".".join(named[-2:])


def ties(node: Node, structure: Structure) -> list[tuple[str, str, str]]:
    """(dimension, its units, coupled members or reason why it is fixed) of a node's weight, for the inspector."""
    lines: list[tuple[str, str, str]] = []
    for units in structure.sets:
        for member in units.members:
            if member.node != node.id or member.port not in ("weight", "value"):
                continue
            if units.kind == "other" and units.blocked:
                continue
            reason = units.blocked
            others = describe(units, structure)
            text = f"fixed by {reason.node}: {reason.text}" if reason else f"coupled with {others}"
            lines.append((member.role if member.role != "own" else "values", amount(units, member, structure), text))
    return sorted(lines, key=lambda f: f[0], reverse=True)  # values, rows, columns
