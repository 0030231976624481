"""Nodes that a MASE pass has put in: exported together, raised as any model is, and spliced in.

So a function, a method, a module of torch or one of the user's own all become nodes that a graph may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx, nn
from torch.export import Dim

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.graph.node import Arg, map_arg
from espalier.model.symbols import evaluate
from espalier.model.trace.module_recovery import ModuleRecovery
from espalier.passes.base import Context
from espalier.passes.mase.probing import Probes


@dataclass(frozen=True, slots=True)
class Names:
    """Weight names by the id of the tensor, and names that are in use."""

    tied: dict[int, str]
    used: set[str]


class Inserted:
    """The new nodes of one pass, raised. `nodes` and `weights` are to be added, `values` says what came of each."""

    def __init__(
        self, model: fx.GraphModule, new: list[fx.Node], probes: Probes, taken: set[str], names: Names, context: Context
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.weights: dict[str, Weight] = {}
        self.values: dict[fx.Node, Arg] = {}
        self.inputs: dict[fx.Node, str] = {}
        self._model, self._new, self._probes = model, new, probes
        self._taken, self._names, self._context = set(taken), names, context
        self._ends = _ends(new)

    def raise_(self, ref: Callable[[fx.Node], Arg]) -> None:
        """Fill `nodes`, `weights` and `values`; `ref` gives what an old node is in the graph."""
        if not self._new:
            return
        recovery = self._export()
        found = recovery.graph()
        sizes = self._sizes(recovery)
        made: dict[str, Arg] = {}
        old = {name: node for node, name in self.inputs.items()}
        for node in found:
            if node.call == "placeholder":
                made[node.id] = ref(old[node.target])
            elif node.call != "output":
                made[node.id] = self._put(node, made, found, sizes)
        flat, spec = pytree.tree_flatten([self._probes.values[0][n] for n in self._ends])
        ends = [_through(a, made) for a in found.output.args]
        if len(ends) != len(flat):
            raise PassError("The nodes that the pass put in give results that a graph cannot hold.", "Give tensors.")
        self.values = {n: _tuple(v) for n, v in zip(self._ends, pytree.tree_unflatten(ends, spec), strict=True)}

    # -- the new nodes as a model of their own

    def _export(self) -> ModuleRecovery:
        graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()

        def copy(node: fx.Node) -> fx.Node:
            if node not in copies:
                if node not in self._new and self._probes.tensor(node) is not None:
                    copies[node] = graph.placeholder(node.name)
                    self.inputs[node] = str(copies[node].target)
                else:  # a size goes in with what it was taken from
                    copies[node] = graph.node_copy(node, copy)
            return copies[node]

        ends = [copy(n) for n in self._ends]
        graph.output(tuple(ends))
        part = fx.GraphModule(self._model, _sorted(graph))
        try:
            program = torch.export.export(part, (), self._examples(), strict=False, dynamic_shapes=self._dynamic())
            return ModuleRecovery(program, part, self._context.store)
        # torch.export raises dozens of types for what foreign code does.
        except Exception as error:
            names = ", ".join(n.name for n in self._new[:3])
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise PassError(f"{names} could not be put into the graph: {text[0][:200]}", "Use torch's own.") from error

    def _examples(self) -> dict[str, Tensor]:
        values = {name: self._probes.tensor(node) for node, name in self.inputs.items()}
        return {k: torch.zeros(tuple(v.shape), dtype=v.dtype) for k, v in values.items() if v is not None}

    def _dynamic(self) -> dict[str, Any]:
        return {name: {i: Dim.AUTO for i in self._free(node)} for node, name in self.inputs.items()}

    def _free(self, node: fx.Node) -> list[int]:
        value = self._probes.tensor(node)
        axes = range(value.dim() if value is not None else 0)
        return [i for i in axes if len(set(self._probes.sizes(node, i))) > 1]

    def _sizes(self, recovery: ModuleRecovery) -> list[dict[str, int]]:
        """The part's own symbols at each of the probes' assignments."""
        nodes = {name: node for node, name in self.inputs.items()}
        found: list[dict[str, int]] = [dict(recovery.names.symbols) for _ in self._probes.assignments]
        for symbol, places in recovery.names.dynamic.items():
            name, _, axis = places[0].removesuffix("]").rpartition("[")
            if symbol in recovery.names.symbols:
                for i, size in enumerate(self._probes.sizes(nodes[name], int(axis))):
                    found[i][symbol] = size
        return found

    # -- into the graph

    def _put(self, node: Node, made: dict[str, Arg], part: Graph, sizes: list[dict[str, int]]) -> Arg:
        name = node.id
        number = 0
        while name in self._taken:
            number += 1
            name = f"{node.id}_{number}"
        self._taken.add(name)
        args = tuple(map_arg(a, lambda r: _through(r, made)) for a in node.args)
        kwargs = {k: map_arg(a, lambda r: _through(r, made)) for k, a in node.kwargs.items()}
        ports = {p: self._meta(m, sizes) for p, m in node.ports.items()}
        weights = {p: self._weight(w, part) for p, w in node.weights.items()}
        self.nodes[name] = replace(node, id=name, args=args, kwargs=kwargs, ports=ports, weights=weights, source="")
        return Ref(name)

    def _meta(self, meta: TensorMeta, sizes: list[dict[str, int]]) -> TensorMeta:
        values = [[d if isinstance(d, int) else evaluate(d, s) for s in sizes] for d in meta.shape]
        return TensorMeta(tuple(self._probes.express(v) for v in values), meta.dtype)

    def _weight(self, name: str, part: Graph) -> str:
        held = self._names.tied.get(id(_tensor(self._model, name)))
        if held is None:
            held = f"{name}_new" if name in self._names.used else name
        self.weights[held] = part.weights[name]
        return held


def _ends(new: list[fx.Node]) -> list[fx.Node]:
    """New nodes that an old one uses, or nobody."""
    own = set(new)
    return [n for n in new if not n.users or any(u not in own for u in n.users)]


def _sorted(graph: fx.Graph) -> fx.Graph:
    """Placeholders first, in the order they were made: torch.fx wants it, and torch.export goes by position."""
    first = next(iter(graph.nodes))
    for node in [n for n in graph.nodes if n.op == "placeholder"]:
        if node is first:
            first = node.next
        else:
            first.prepend(node)
    return graph


def _tensor(model: nn.Module, path: str) -> object:
    home: object = model
    for part in path.split("."):
        home = getattr(home, part, None)
    return home


def _through(arg: Arg, made: dict[str, Arg]) -> Arg:
    if isinstance(arg, Ref):
        value = made[arg.node]
        return replace(value, output=arg.output) if isinstance(value, Ref) and arg.output else value
    return arg


def _tuple(value: Any) -> Arg:
    return tuple(_tuple(v) for v in value) if isinstance(value, list | tuple) else value
