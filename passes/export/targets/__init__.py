"""What other programs' file formats can hold of a model, node by node and without its values. One file per target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import choice, turned_weight, weight_at
from espalier.model.registry import Registry
from espalier.model.sources.reading import Limits


@dataclass(frozen=True, slots=True)
class Unheld:
    """A choice of a node that a target has no equal of: its port, its format, the reason and a choice that it has.

    `activation`: results differ without it; a weight can stay float with the values of its format. `firm`: it cannot
    stay float either.
    """

    node: str
    port: str
    label: str
    why: str
    instead: str
    activation: bool = False
    firm: bool = False

    def __str__(self) -> str:
        return f"{self.node} {self.port} ({self.label}: {self.why})"


class No(NamedTuple):
    """Why a target has no equal of a format, and what to choose."""

    why: str
    instead: str

    def at(self, node: Node, port: str) -> Unheld:
        """As the choice of a node: of a stored tensor, or of an activation at a port `data…`."""
        return self._at(node, port, activation=port.startswith("data"))

    def at_activation(self, node: Node, port: str) -> Unheld:
        """As the choice of an activation, which may be at the port `weight`, as the second operand of a product."""
        return self._at(node, port, activation=True)

    def _at(self, node: Node, port: str, *, activation: bool) -> Unheld:
        chosen = choice(node, port)
        return Unheld(node.id, port, chosen.format.label if chosen else "", self.why, self.instead, activation)


def activation_formats(node: Node, graph: Graph) -> dict[str, Precision]:
    """The formats at ports whose tensor is computed: all but those of stored tensors."""
    return {p: c for p, c in node.precision.items() if p in node.ports and weight_at(node, p, graph) is None}


def stored_name(node: Node, port: str, graph: Graph) -> str | None:
    """The name of the stored tensor at a port, also where it is read through a transpose; None for a computed one."""
    turned = None if node.call == "call_module" else turned_weight(node, port, graph)
    return turned[0] if turned else weight_at(node, port, graph)


LEAVE = "Leave it in float."
Check = Callable[[Node, Graph], Iterator[Unheld]]


@dataclass(frozen=True, slots=True)
class Target:
    """A file format. `check`: the choices of a node that it has no equal of.

    `own`: type of a weight → its own names of formats, and the formats as text. `refuses`: (architecture, head), as in
    `Limits`, both known → why no file of such a model is written; empty where one is.
    """

    check: Check
    own: Callable[[str], dict[str, str]]
    refuses: Callable[[str, str], str] = lambda architecture, head: ""


TARGETS: Registry[str, Target] = Registry("target of export", ExportError, (__name__,))


def refused_model(target: str, limits: Limits | None) -> str:
    """Why `target` takes no model of this architecture; empty where it does, or where the architecture is not known.

    Raises ExportError for an unknown target.
    """
    if limits is None or limits.architecture is None:
        return ""
    return TARGETS.get(target).refuses(limits.architecture, limits.head)


def unheld(target: str, node: Node, graph: Graph) -> tuple[Unheld, ...]:
    """The choices of a node that `target` cannot hold; raises ExportError for an unknown target."""
    return tuple(TARGETS.get(target).check(node, graph))


def holds(target: str, node: Node, graph: Graph) -> str | None:
    """Why `target` cannot hold the choices of a node, and what it can; None where it holds them all.

    Raises ExportError for an unknown target.
    """
    for found in unheld(target, node, graph):
        return f"{found.label} of {found.port}: {found.why}. {found.instead}"
    return None


def all_unheld(target: str, graph: Graph) -> list[Unheld]:
    """The choices of all nodes that `target` cannot hold, in the graph's order."""
    return [u for node in graph for u in unheld(target, node, graph)]


def checked(target: str, graph: Graph, *, leave_float: bool) -> list[str]:
    """Notes on the choices that stay float; raises ExportError where some cannot be held, or may not stay float."""
    found = all_unheld(target, graph)
    if found and not (leave_float and not any(u.firm for u in found)):
        raise refusal(target, found)
    counts: dict[tuple[str, str, str, bool], list[str]] = {}
    for u in found:
        counts.setdefault((u.port, u.label, u.why, u.activation), []).append(u.node)
    return [f"Left in float{'' if activation else ' with the values of its format'}: {port} of {_named(nodes)} "
            f"({label}: {why})." for (port, label, why, activation), nodes in counts.items()]  # fmt: skip


def without_unheld_activations(target: str, graph: Graph) -> Graph:
    """Activations that `target` has no equal of, in float: `checked` has told them."""
    gone = {(u.node, u.port) for u in all_unheld(target, graph) if u.activation}
    return graph.replace(*(
        replace(n, precision={p: c for p, c in n.precision.items() if (n.id, p) not in gone})
        for n in graph if any((n.id, p) in gone for p in n.precision)
    ))  # fmt: skip


def _named(nodes: list[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"


def refusal(target: str, found: list[Unheld]) -> ExportError:
    """The error that names the first few of the choices that `target` cannot hold."""
    first = next((u for u in found if u.firm), found[0])
    named = "; ".join(map(str, found[:3])) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    choose = "" if first.instead == LEAVE else f"{first.instead} "
    leave = "" if first.firm else "To leave these in float, export with leave_float (--leave-float)."
    return ExportError(f"{target} cannot hold {named}.", f"{choose}{leave}".strip(), first.node)
