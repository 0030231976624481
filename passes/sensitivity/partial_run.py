"""Partial runs of a built module: computes requested values from known ones, running only the nodes needed.

Values are named by the id of the graph's node, before its output format; RESULT is the module's result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from torch import Tensor, fx

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE

RESULT = ""
Values = dict[str, Any]


class PartialRun:
    """A module of `build`; one with its own code is always run in full."""

    def __init__(self, module: Any, graph: Graph) -> None:
        self.module = module
        self.graph = graph
        self._whole = not isinstance(module, fx.GraphModule)
        self.nodes: list[fx.Node] = [] if self._whole else list(module.graph.nodes)
        self._writes = any(_writes(n) for n in self.nodes)

    def values(self, inputs: Mapping[str, Tensor], known: Mapping[str, Any], wanted: Collection[str]) -> Values:
        """The values `wanted` (ids, or RESULT) on a batch, given the values `known`."""
        if self._whole or self._writes:  # in-place operations would change known values
            known = {}
        if self._whole:
            return {RESULT: self.module(**inputs)}
        ends = [n for n in self.nodes if _name(n) in wanted]
        result: Values = {}

        def see(n: fx.Node, value: Any) -> None:
            if _name(n) in wanted:
                result[_name(n) or RESULT] = value

        self._run(inputs, known, self._needed(ends, known), see)
        return result

    def before(self, first: str) -> set[str]:
        """The nodes before `first` whose values `first` or later nodes read."""
        if self._whole or self._writes:
            return set()
        begins = next((i for i, n in enumerate(self.nodes) if n.meta.get(NODE) == first), len(self.nodes))
        later = set(self.nodes[begins:])
        ends = (n for n in self.nodes[:begins] if any(u in later for u in n.users))
        return {n.meta[NODE] for n in ends if NODE in n.meta}

    def sizes(self, inputs: Mapping[str, Tensor]) -> dict[str, int]:
        """Node → bytes of its value on a batch."""
        result: dict[str, int] = {}

        def see(n: fx.Node, value: Any) -> None:
            if NODE in n.meta:
                result[n.meta[NODE]] = value.nbytes if isinstance(value, Tensor) else 0

        if not self._whole:
            self._run(inputs, {}, self.nodes, see)
        return result

    def _needed(self, ends: Iterable[fx.Node], known: Mapping[str, Any]) -> list[fx.Node]:
        stack, needed = list(ends), set[fx.Node]()
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                stack += [] if n.meta.get(NODE) in known else n.all_input_nodes
        return [n for n in self.nodes if n in needed]

    def _run(
        self, inputs: Mapping[str, Tensor], known: Mapping[str, Any], nodes: list[fx.Node],
        see: Callable[[fx.Node, Any], None],
    ) -> None:  # fmt: skip
        interpreter = fx.Interpreter(self.module, garbage_collect_values=False)
        env = interpreter.env = {}
        given = dict(zip((n for n in self.nodes if n.op == "placeholder"), self.graph.placeholders, strict=True))
        dead = _dead_after(nodes)
        for n in nodes:
            if n.meta.get(NODE) in known:
                env[n] = known[n.meta[NODE]]
            else:
                env[n] = inputs.get(given[n].target) if n in given else interpreter.run_node(n)
            see(n, env[n])
            for source in dead.get(n, ()):
                env.pop(source, None)


def _name(n: fx.Node) -> str | None:
    return RESULT if n.op == "output" else n.meta.get(NODE)


def _dead_after(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """Node → the nodes whose values are not read after it."""
    last = {source: n for n in nodes for source in n.all_input_nodes}
    dead: dict[fx.Node, list[fx.Node]] = {}
    for source, n in last.items():
        dead.setdefault(n, []).append(source)
    return dead


def _writes(n: fx.Node) -> bool:
    schema = getattr(n.target, "_schema", None)
    return bool(getattr(schema, "is_mutable", False))
