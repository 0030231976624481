"""Selection of nodes by type, name, regular expression, module path, expression or saved selection, or all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

from espalier.model.errors import OptionsError, PassError, nearest
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import OPS, Category, category
from espalier.model.patterns import Patterns, check
from espalier.model.torch.leaf_names import class_of_name, is_of_class
from espalier.passes.where import holds, parse


@dataclass(frozen=True, slots=True)
class Select:
    """A selection of nodes.

    by type: `values` are ops ("linear"), categories ("norm") or classes ("LayerNorm", "batch_norm2d"), tried in this
    order; by name: node ids or module paths; by regex: patterns searched in ids and paths; by module: path prefixes
    ("bert.encoder.layer.0"); by where: expressions over facts and choices ('op == "linear" and bits > 4', see
    `espalier.passes.where`); by saved: names of selections that the project keeps, with their node ids in `nodes`,
    which are filled in when a step enters a recipe (see `espalier.passes.saved`); all: every node.
    """

    by: Literal["all", "type", "name", "regex", "module", "where", "saved"] = "all"
    values: tuple[str, ...] = ()
    nodes: tuple[str, ...] | None = field(
        default=None, repr=False, metadata={"help": "by saved alone: the ids of its nodes"}
    )

    def __post_init__(self) -> None:
        if self.nodes is not None and self.by != "saved":
            text = f"nodes belongs to a saved selection, and this one is by {self.by}."
            raise OptionsError(text, 'Write by = "saved", or leave nodes out.')
        if self.by == "regex":
            for pattern in self.values:
                check(pattern)
        if self.by == "where":
            for expression in self.values:
                parse(expression)

    def describe(self) -> str:
        """Text for steps and messages: "type linear", "no type"."""
        if self.by == "saved" and self.values:
            return self.names
        named = f"{self.by} {', '.join(self.values)}" if self.values else f"no {self.by}"
        return "all" if self.by == "all" else named

    @property
    def names(self) -> str:
        """The values in quotes, for texts: saved selection "attention inputs"."""
        noun = "saved selection" if len(self.values) == 1 else "saved selections"
        quoted = ", ".join(f'"{v}"' for v in self.values)
        return f"{noun} {quoted}"

    @property
    def listed(self) -> tuple[str, ...]:
        """What it lists node by node: the names of one by name, the members of a saved one; empty for others."""
        return self.values if self.by == "name" else self.nodes or ()


def _path(node: Node) -> str:
    return node.target if node.call == "call_module" else node.module_path


_TESTS: dict[str, Callable[[Node, frozenset[str]], bool]] = {
    "all": lambda node, values: True,
    "type": lambda node, values: _types(values).has(node),
    "name": lambda node, values: node.id in values or (node.call == "call_module" and node.target in values),
    "regex": lambda node, values: _occurs(_patterns(values), node),
    "saved": lambda node, values: node.id in values,
    "where": lambda node, values: any(holds(v, node) for v in values),
    "module": lambda node, values: any(_path(node) == v or _path(node).startswith(v + ".") for v in values),
}


@dataclass(frozen=True, slots=True)
class _Types:
    """Names of types, by their kind."""

    ops: frozenset[str]
    categories: frozenset[str]
    classes: frozenset[str]

    def has(self, node: Node) -> bool:
        if node.op in self.ops or (self.categories and category(node) in self.categories):
            return True
        return bool(self.classes) and any(is_of_class(node, c) for c in self.classes)


@lru_cache(maxsize=64)
def _types(names: frozenset[str]) -> _Types:
    """Names by kind; an unknown name may be an op of some graph."""
    categories = {w for w in names if w not in OPS and w in get_args(Category)}
    classes = {w: c for w in names - categories if w not in OPS and (c := class_of_name(w))}
    return _Types(names - categories - set(classes), frozenset(categories), frozenset(classes.values()))


@lru_cache(maxsize=64)
def _patterns(values: frozenset[str]) -> Patterns:
    return Patterns(sorted(values))


def _occurs(patterns: Patterns, node: Node) -> bool:
    return patterns.first(node.id) is not None or patterns.first(_path(node)) is not None


def _unknown_type(graph: Graph, select: Select) -> str | None:
    """The first type that is neither an op nor a category nor a class."""
    unknown = _types(_values(select)).ops - set(OPS) if select.by == "type" else frozenset[str]()
    unknown = unknown - {n.op for n in graph} if unknown else unknown
    return next((v for v in select.values if v in unknown), None)


@lru_cache(maxsize=64)
def _values(select: Select) -> frozenset[str]:
    """What the test of a selection compares nodes with; raises PassError for a saved one without its nodes."""
    if select.by != "saved":
        return frozenset(select.values)
    if select.nodes is None:
        text = f"There is no {select.names} in this project."
        raise PassError(text, "Save one of this name, or list its nodes in the recipe.")
    return frozenset(select.nodes)


def matches(node: Node, select: Select) -> bool:
    """Whether a node is selected."""
    return _TESTS[select.by](node, _values(select))


def by_name(graph: Graph) -> dict[str, list[Node]]:
    """Node id or module path → its nodes in order; an index for repeated selections by name."""
    nodes: dict[str, list[Node]] = {}
    for node in graph:
        if node.call == "call_module" and node.target not in graph.nodes:
            nodes.setdefault(node.target, []).append(node)
    return nodes | {node.id: [node] for node in graph}


def _named(graph: Graph, names: frozenset[str]) -> list[Node]:
    """Nodes by name. A node id selects only that node, even if it is also the path of a module."""
    paths = {n for n in names if n not in graph.nodes}
    return [n for n in graph if n.id in names or (n.call == "call_module" and n.target in paths)]


def chosen(
    graph: Graph,
    select: Select,
    accepts: Callable[[Node], bool],
    purpose: str,
    names: Mapping[str, list[Node]] | None = None,
    no_node_hint: str = "This model has no such node.",
) -> list[Node]:
    """The selected nodes that `accepts` accepts. Raises PassError if there is none. `names`: `by_name(graph)`.

    `no_node_hint`: hint of the error if the graph has no accepted node at all.
    """
    if names is not None and select.by == "name" and len(select.values) == 1:
        nodes = names.get(select.values[0], [])
    else:
        test, values = _TESTS[select.by], _values(select)
        nodes = _named(graph, values) if select.by == "name" else [n for n in graph if test(n, values)]
    accepted = [n for n in nodes if accepts(n)]
    if nodes and (unknown := _unknown_type(graph, select)):
        raise PassError(f"There is no type {unknown!r}.", nearest(unknown, types_in(graph)))
    if accepted:
        return accepted
    if nodes:
        raise PassError(f"None of the {len(nodes)} selected nodes can be {purpose}.",
                        _accepted_types_hint(graph, accepts, no_node_hint), nodes[0].id)  # fmt: skip
    raise PassError(f"The selection ({select.describe()}) matches no node.", _hint(graph, select))


def _accepted_types_hint(graph: Graph, accepts: Callable[[Node], bool], no_node_hint: str) -> str:
    ops = sorted({n.op for n in graph if accepts(n)})
    return f"Suitable types: {', '.join(ops)}." if ops else no_node_hint


def types_in(graph: Graph) -> list[str]:
    """The names that select by type in a graph, sorted: ops, categories and classes of modules."""
    classes = {str(n.attrs["class"]) for n in graph if "class" in n.attrs}
    return sorted({n.op for n in graph} | {c for n in graph if (c := category(n)) not in OPS} | classes)


NOUNS = {"where": "expression", "saved": "selection"}


def _hint(graph: Graph, select: Select) -> str:
    if select.by == "type":
        if unknown := _unknown_type(graph, select):
            return nearest(unknown, types_in(graph))
        return f"The model's types: {', '.join(sorted({n.op for n in graph}))}."
    names_by_kind = {
        "name": set(graph.nodes),
        "module": {_path(n) for n in graph if _path(n)},
    }
    names = names_by_kind.get(select.by)
    if not select.values:
        return f"Select by at least one {'name' if select.by == 'saved' else select.by}."
    if select.by == "saved":
        many = len(select.nodes or ())
        return f"None of its {many} nodes is in the model here. Save the selection again, and use it as it is now."
    return nearest(select.values[0], names) if names else f"Change the {NOUNS.get(select.by, 'pattern')}."
