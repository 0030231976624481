"""What other programs' file formats can hold of a model, node by node and without its values. One file per target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.registry import Registry


@dataclass(frozen=True, slots=True)
class Unheld:
    """A choice of a node that a target has no equal of: its port, its format, the reason and a choice that it has.

    `activation`: results differ without it; a weight can stay float with the values of its format.
    """

    node: str
    port: str
    label: str
    why: str
    instead: str
    activation: bool = False

    def __str__(self) -> str:
        return f"{self.node} {self.port} ({self.label}: {self.why})"


class No(NamedTuple):
    """Why a target has no equal of a format, and what to choose."""

    why: str
    instead: str

    def at(self, node: Node, port: str) -> Unheld:
        """As the choice of a node."""
        chosen = choice(node, port)
        label = chosen.format.label if chosen else ""
        return Unheld(node.id, port, label, self.why, self.instead, port.startswith("data"))


Check = Callable[[Node, Graph], Iterator[Unheld]]
TARGETS: Registry[str, Check] = Registry("target of export", ExportError, (__name__,))


def unheld(target: str, node: Node, graph: Graph) -> tuple[Unheld, ...]:
    """The choices of a node that `target` cannot hold; raises ExportError for an unknown target."""
    return tuple(TARGETS.get(target)(node, graph))


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


def refusal(target: str, found: list[Unheld]) -> ExportError:
    """The error that names the first few of the choices that `target` cannot hold."""
    named = "; ".join(map(str, found[:5])) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
    return ExportError(
        f"{target} cannot hold {named}.",
        f"{found[0].instead} To keep float values in place of these, export with --leave-float.",
        found[0].node,
    )
