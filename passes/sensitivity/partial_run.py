"""A built module asked for single values: only what they need is run, and values that are known are taken as they are.

Values go by the id of the graph's node, before its own format; under RESULT the module's result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from torch import Tensor, fx

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE

RESULT = ""
Values = dict[str, Any]


class Asked:
    """A module of `build` (one that runs with its own code always runs whole)."""

    def __init__(self, module: Any, graph: Graph) -> None:
        self.module = module
        self.graph = graph
        self._whole = not isinstance(module, fx.GraphModule)
        self.nodes: list[fx.Node] = [] if self._whole else list(module.graph.nodes)
        self._writes = any(_writes(n) for n in self.nodes)

    def values(self, inputs: Mapping[str, Tensor], known: Mapping[str, Any], wanted: Collection[str]) -> Values:
        """The values `wanted` (ids, or RESULT) on a batch, where those of `known` hold."""
        if self._whole or self._writes:  # what writes into its operands would spoil values that stay
            known = {}
        if self._whole:
            return {RESULT: self.module(**inputs)}
        ends = [n for n in self.nodes if _name(n) in wanted]
        found: Values = {}

        def see(n: fx.Node, value: Any) -> None:
            if _name(n) in wanted:
                found[_name(n) or RESULT] = value

        self._run(inputs, known, self._needed(ends, known), see)
        return found

    def before(self, first: str) -> set[str]:
        """The nodes before `first` whose values it and those after it take."""
        if self._whole or self._writes:
            return set()
        begins = next((i for i, n in enumerate(self.nodes) if n.meta.get(NODE) == first), len(self.nodes))
        later = set(self.nodes[begins:])
        ends = (n for n in self.nodes[:begins] if any(u in later for u in n.users))
        return {n.meta[NODE] for n in ends if NODE in n.meta}

    def sizes(self, inputs: Mapping[str, Tensor]) -> dict[str, int]:
        """Node → bytes of its value on a batch."""
        found: dict[str, int] = {}

        def see(n: fx.Node, value: Any) -> None:
            if NODE in n.meta:
                found[n.meta[NODE]] = value.nbytes if isinstance(value, Tensor) else 0

        if not self._whole:
            self._run(inputs, {}, self.nodes, see)
        return found

    def _needed(self, ends: Iterable[fx.Node], known: Mapping[str, Any]) -> list[fx.Node]:
        stack, found = list(ends), set[fx.Node]()
        while stack:
            n = stack.pop()
            if n not in found:
                found.add(n)
                stack += [] if n.meta.get(NODE) in known else n.all_input_nodes
        return [n for n in self.nodes if n in found]

    def _run(
        self, inputs: Mapping[str, Tensor], known: Mapping[str, Any], nodes: list[fx.Node],
        see: Callable[[fx.Node, Any], None],
    ) -> None:  # fmt: skip
        interpreter = fx.Interpreter(self.module, garbage_collect_values=False)
        env = interpreter.env = {}
        given = dict(zip((n for n in self.nodes if n.op == "placeholder"), self.graph.placeholders, strict=True))
        gone = _gone(nodes)
        for n in nodes:
            if n.meta.get(NODE) in known:
                env[n] = known[n.meta[NODE]]
            else:
                env[n] = inputs.get(given[n].target) if n in given else interpreter.run_node(n)
            see(n, env[n])
            for source in gone.get(n, ()):
                env.pop(source, None)


def _name(n: fx.Node) -> str | None:
    return RESULT if n.op == "output" else n.meta.get(NODE)


def _gone(nodes: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """Node → the nodes whose values none of `nodes` needs after it."""
    last = {source: n for n in nodes for source in n.all_input_nodes}
    found: dict[fx.Node, list[fx.Node]] = {}
    for source, n in last.items():
        found.setdefault(n, []).append(source)
    return found


def _writes(n: fx.Node) -> bool:
    schema = getattr(n.target, "_schema", None)
    return bool(getattr(schema, "is_mutable", False))
