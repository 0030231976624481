"""Search queries for nodes: an expression over facts and choices, a regular expression, or plain text."""

from __future__ import annotations

import re

from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.passes.select import Select, chosen
from espalier.passes.where import FACTS

_COMPARES = re.compile(r"[<>=!]=|[<>]|\bin\b|\bnot\b|\band\b|\bor\b")
PREFIX = "where:"


def selection_of(text: str) -> Select | None:
    """The selection of a query; None for plain text.

    `/…/` is a regular expression over ids and paths. `where:…` is an expression, as is a text that compares a fact
    (`bits <= 4 and params > 1e5`). Raises OptionsError for an invalid expression or pattern.
    """
    text = text.strip()
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return Select("regex", (text[1:-1],))
    if text.startswith(PREFIX):
        return Select("where", (text.removeprefix(PREFIX).strip(),))
    first = re.match(r"(?:not\s+|\(|-)*([A-Za-z_]\w*)", text)
    if first and first[1] in FACTS and _COMPARES.search(text):
        return Select("where", (text,))
    return Select("where", (text,)) if text == "muted" else None


def find_nodes(graph: Graph, select: Select) -> tuple[str, ...]:
    """Ids of the selected nodes, in the graph's order; empty if nothing matches.

    Raises OptionsError for a comparison of a number with a text, or a pattern that exceeds its time limit.
    """
    try:
        return tuple(n.id for n in chosen(graph, select, lambda _: True, "found"))
    except PassError as error:
        if isinstance(error, OptionsError):
            raise
        return ()
