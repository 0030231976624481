"""Values as readable text: graphs and nodes as tables, large containers over several lines."""

from __future__ import annotations

import pprint
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from espalier.app.commands.console import table
from espalier.app.number_text import plural
from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node

ROWS, WIDTH, LONGEST = 60, 100, 20_000  # rows of a table, characters of a line, characters of a value


def readable(value: object) -> str:
    """The text of a value; a longer one than LONGEST is cut, and says so."""
    text = _text(value)
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}…\n(cut: {plural(len(text), 'character')} in all; print() writes them)"


def _text(value: object) -> str:
    match value:
        case Graph():
            return "\n".join([plural(len(value), "node"), *_rows(tuple(value))])
        case Node():
            return _node(value)
        case tuple() | list() if value and all(isinstance(v, Node) for v in value):
            return "\n".join(_rows(value))
        case dict() | list() | tuple() | set() | frozenset():
            text = repr(value)
            if WIDTH < len(text) <= LONGEST:
                return pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False)
            return text
        case _:
            return repr(value)


def _rows(nodes: Sequence[Any]) -> Iterable[str]:
    yield from table([_row(n) for n in nodes[:ROWS]], "  ")
    if len(nodes) > ROWS:
        yield f"  … {plural(len(nodes) - ROWS, 'more node')}"


def _row(node: Node) -> dict[str, Any]:
    out = node.ports.get("data_out")
    formats = ", ".join(f"{port} {p.format.label}" for port, p in node.precision.items())
    zeros = ", ".join(f"{port} {s.ratio:.0%}" for port, s in node.sparsity.items())
    return {"id": node.id, "op": node.op, "result": " × ".join(map(str, out.shape)) if out else "",
            "formats": formats, "zeros": zeros}  # fmt: skip


def _node(node: Node) -> str:
    """A line per field that says something."""
    names = [f.name for f in fields(node)]
    width = max(map(len, names))
    values = [(name, getattr(node, name)) for name in names]
    return "\n".join(f"{n.ljust(width)}  {v!r}" for n, v in values if v not in ("", (), {}, None))
