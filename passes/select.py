"""Which nodes a pass works on: by type, name, regex, module path, or all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from model.errors import OptionsError, PassError, nearest
from model.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Select:
    """Nodes of a graph.

    by type: `values` are ops ("linear"); by name: node ids or module paths; by regex: patterns searched in
    ids and paths; by module: path prefixes ("bert.encoder.layer.0"); all: every node.
    """

    by: Literal["all", "type", "name", "regex", "module"] = "all"
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.by == "regex":
            for pattern in self.values:
                _compile(pattern)

    def describe(self) -> str:
        """For steps and messages: "type linear"."""
        return "all" if self.by == "all" else f"{self.by} {', '.join(self.values)}"


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionsError(f"{pattern!r} is not a regular expression ({error}).", "Correct it.") from error


def _path(node: Node) -> str:
    return node.target if node.call == "call_module" else node.module_path


_TESTS: dict[str, Callable[[Node, frozenset[str]], bool]] = {
    "all": lambda node, values: True,
    "type": lambda node, values: node.op in values,
    "name": lambda node, values: node.id in values or (node.call == "call_module" and node.target in values),
    "regex": lambda node, values: any(re.search(v, node.id) or re.search(v, _path(node)) for v in values),
    "module": lambda node, values: any(_path(node) == v or _path(node).startswith(v + ".") for v in values),
}


@lru_cache(maxsize=64)
def _values(select: Select) -> frozenset[str]:
    return frozenset(select.values)


def matches(node: Node, select: Select) -> bool:
    """Whether a node is selected."""
    return _TESTS[select.by](node, _values(select))


def chosen(graph: Graph, select: Select, able: Callable[[Node], bool], purpose: str) -> list[Node]:
    """The selected nodes for which `able` holds; raises PassError when there is none."""
    found = [n for n in graph if matches(n, select)]
    fit = [n for n in found if able(n)]
    if fit:
        return fit
    if found:
        raise PassError(f"None of the {len(found)} selected nodes can be {purpose}.",
                        _able_hint(graph, able), found[0].id)  # fmt: skip
    raise PassError(f"The selection ({select.describe()}) matches no node.", _hint(graph, select))


def _able_hint(graph: Graph, able: Callable[[Node], bool]) -> str:
    ops = sorted({n.op for n in graph if able(n)})
    return f"Types that can: {', '.join(ops)}." if ops else "This model has no such node."


def _hint(graph: Graph, select: Select) -> str:
    words = {
        "type": {n.op for n in graph},
        "name": set(graph.nodes),
        "module": {_path(n) for n in graph if _path(n)},
    }
    known = words.get(select.by)
    return nearest(select.values[0], known) if known and select.values else "Change the pattern."
