"""Limits a search to the formats that a target of export holds, so that its best trial can be exported there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from espalier.model.errors import OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import offered
from espalier.model.graph.ports import weight_at
from espalier.model.sources.reading import Limits
from espalier.passes.export.targets import Unheld, all_unheld, refused_model, unheld
from espalier.passes.search.format_lists import FLOAT, format_of
from espalier.passes.search.space import Choice

HALVES = ("float16", "bfloat16")


def limited(choices: Iterable[Choice], graph: Graph, target: str) -> list[Choice]:
    """The choices with the formats that `target` holds at all of their nodes and ports; "" keeps all.

    Raises OptionsError where it holds none of them, and ExportError for an unknown target.
    """
    return [_held(c, graph, target) if target and c.kind == "format" else c for c in choices]


def check_model(target: str, limits: Limits | None) -> None:
    """Raise OptionsError if `target` takes no model of this architecture."""
    if why := refused_model(target, limits) if target else "":
        raise OptionsError(f"The search is limited to {target}, but {why}.", "Choose another target, or none.")


def check_rest(choices: Iterable[Choice], graph: Graph, target: str) -> None:
    """Raise OptionsError if `target` has no equal of what the recipe chose and no entry varies."""
    varied = {(n, p) for c in choices if c.kind == "format" for n in c.nodes for p in c.ports}
    for found in all_unheld(target, graph) if target else ():
        if found.firm or (found.node, found.port) not in varied:
            raise OptionsError(f"{target} cannot hold {found}, which the recipe chooses.", found.instead, found.node)


def _held(choice: Choice, graph: Graph, target: str) -> Choice:
    refused = {str(v): found for v in choice.values if (found := _refusal(str(v), choice, graph, target)) is not None}
    kept = tuple(v for v in choice.values if str(v) not in refused)
    if refused and not any(v != FLOAT for v in kept):
        first = next(iter(refused.values()))
        raise OptionsError(f"{target} holds none of the formats of {choice.name}: {first}.", first.instead, first.node)
    return replace(choice, values=kept)


def _refusal(value: str, choice: Choice, graph: Graph, target: str) -> Unheld | None:
    """What `target` has no equal of where all nodes of a choice take a value; None where it has."""
    fmt = format_of(value)
    for node in (graph[name] for name in choice.nodes):
        for port in choice.ports:
            if fmt is not None and port in offered(node):
                given = replace(node, precision={**_weight(node, port, graph), port: Precision(fmt)})
                for found in unheld(target, given, graph):
                    if found.port == port and not found.firm:
                        return found
    return None


def _weight(node: Node, port: str, graph: Graph) -> dict[str, Precision]:
    """A format of the weight beside that of an input: some targets round inputs only where the weight has one."""
    name = weight_at(node, "weight", graph) if port.startswith("data") else None
    if name is None:
        return {}
    dtype = graph.weights[name].dtype
    scale = f", scale_dtype={dtype}" if dtype in HALVES else ""
    return {"weight": Precision(parse_format(f"scaled_integer(width=8{scale})"))}
