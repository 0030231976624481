"""The torch.fx graph that a MASE pass leaves, as our graph: what it left alone keeps its facts and choices."""

from __future__ import annotations

import operator
from dataclasses import replace

from torch import fx, nn

from espalier.model.errors import GraphError, PassError
from espalier.model.graph.graph import Graph, Node, Ref, named_weights, same, sort
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import Arg
from espalier.model.graph.operands import refreshed
from espalier.model.graph.ops import quantisable
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy
from espalier.model.trace.args import arg_of
from espalier.passes.base import Context
from espalier.passes.mase.inserted import Inserted, Names
from espalier.passes.mase.lending import Lent, is_effective, restore
from espalier.passes.mase.probing import Probes


def take_back(lent: Lent, model: fx.GraphModule, context: Context) -> Graph:
    """The graph after the pass; the lent graph itself when nothing changed. Raises GraphError or PassError."""
    try:
        model.graph.lint()
        model.recompile()
    except RuntimeError as error:
        raise GraphError(f"The pass leaves a broken graph: {error}", "Re-wire users before erasing.") from error
    valued = _trainable(_valued(lent, context.store), lent)
    after = _Return(valued, lent, model).graph(context)
    return lent.graph if after == lent.graph and not after.delta(lent.graph) else after


def _valued(lent: Lent, store: WeightStore) -> Graph:
    """The lent graph with the values that its tensors have now; only what changed gets a new key."""
    fresh: dict[str, Weight] = {}
    for name, tensor in lent.tensors.items():
        stored, old = to_numpy(tensor), lent.graph.weights[name]
        if stored.key() != old.key:
            fresh[name] = replace(old, key=store.hold(stored))
    return lent.graph.with_weights(fresh)


def _trainable(graph: Graph, lent: Lent) -> Graph:
    live = {k: t for k, t in lent.tensors.items() if k in graph.weights and isinstance(t, nn.Parameter)}
    changed = {k: t.requires_grad for k, t in live.items() if t.requires_grad != graph.weights[k].trainable}
    return graph.with_weights({k: replace(graph.weights[k], trainable=v) for k, v in changed.items()})


class _Return:
    def __init__(self, base: Graph, lent: Lent, model: fx.GraphModule) -> None:
        self.base, self.lent, self.model = base, lent, model
        self.kept: dict[fx.Node, str] = {}
        self.new: list[fx.Node] = []
        self.made: dict[fx.Node, Arg] = {}
        for node in model.graph.nodes:
            self._sort_in(node)

    def _sort_in(self, node: fx.Node) -> None:
        name = self.lent.untouched(node, self.model)
        if name and name not in self.kept.values():
            self.kept[node] = name
        elif node.op == "placeholder":
            raise GraphError(f"The pass puts in the input {node.target}.", "A pass cannot add inputs.")
        elif not is_effective(node, self.model) and not self._is_item(node):
            self._bare(node)
            self.new.append(node)

    def _is_item(self, node: fx.Node) -> bool:
        """An item of a kept node with several results, which our graph reads by number."""
        source = node.args[0] if node.args else None
        held = self.kept.get(source) if isinstance(source, fx.Node) else None
        return node.target is operator.getitem and bool(held) and self.base.nodes[str(held)].outputs is not None

    def _bare(self, node: fx.Node) -> None:
        """A changed module goes back without its mask and format: they stay choices."""
        if node.op == "call_module":
            restore(self.model.get_submodule(str(node.target)))

    # -- the graph

    def graph(self, context: Context) -> Graph:
        args = {name: self._args(node) for node, name in self.kept.items()} if not self.new else {}
        if not self.new and len(self.kept) == len(self.base) and all(self._as_before(n, a) for n, a in args.items()):
            return self.base
        probes = Probes(self.model, self.base)
        inserted = Inserted(self.model, self.new, probes, set(self.kept.values()), self._names(), context)
        inserted.raise_(self._ref)
        self.made.update(inserted.values)
        kept = {name: self._kept(node, name, probes) for node, name in self.kept.items()}
        end = self.base.output.id
        last = kept.pop(end)
        fresh = {k: self._chosen(n, inserted) for k, n in inserted.nodes.items()}
        nodes = sort({**kept, **fresh, end: last})
        nodes = {k: refreshed(n, nodes) for k, n in nodes.items()}
        weights = named_weights(nodes.values(), {**self.base.weights, **inserted.weights})
        return replace(self.base, nodes=nodes, weights=weights, **self._outputs(last))

    def _as_before(self, name: str, args: tuple[tuple[Arg, ...], dict[str, Arg]]) -> bool:
        old = self.base.nodes[name]
        return same(replace(old, args=args[0], kwargs=args[1]), old)

    def _names(self) -> Names:
        """Names of the tensors that were lent, and those that other tensors cannot have."""
        kept = {w for name in self.kept.values() for w in self.base.nodes[name].weights.values()}
        return Names({id(t): name for name, t in self.lent.tensors.items()}, kept)

    def _kept(self, node: fx.Node, name: str, probes: Probes) -> Node:
        old, (args, kwargs) = self.base.nodes[name], self._args(node)
        ports = old.ports
        if old.call != "output" and old.outputs is None and not probes.agrees(node, old.out):
            meta = probes.meta(node)
            ports = {**ports, "data_out": meta} if meta else {p: m for p, m in ports.items() if p != "data_out"}
        return replace(old, args=args, kwargs=kwargs, ports=ports)

    def _chosen(self, node: Node, inserted: Inserted) -> Node:
        """A node whose module was exchanged keeps the formats, masks and adapters that still fit."""
        old = self.base.nodes.get(node.id)
        if old is None or old.op != node.op or old.target != node.target:
            return replace(node, module_path=node.module_path or self._place(node, inserted))
        precision = {p: c for p, c in old.precision.items() if p in quantisable(node)}
        sparsity = {p: s for p, s in old.sparsity.items() if old.ports.get(p) == node.ports.get(p)}
        adapters = {p: x for p, x in old.adapters.items() if old.ports.get(p) == node.ports.get(p)}
        return replace(node, precision=precision, sparsity=sparsity, adapters=adapters, source=old.source)

    def _place(self, node: Node, inserted: Inserted) -> str:
        """A function without a module of its own is shown where its input is."""
        for ref in node.inputs:
            source = self.base.nodes.get(ref.node) or inserted.nodes.get(ref.node)
            if source and source.module_path:
                return source.module_path.rpartition(".")[0] if source.call == "call_module" else source.module_path
        return ""

    def _outputs(self, output: Node) -> dict[str, tuple[str, ...]]:
        count, names = len(output.args), self.base.output_names
        if count == len(names) or self.base.structure == "tensor":
            return {}
        return {"output_names": tuple(names[i] if i < len(names) else f"output_{i}" for i in range(count))}

    # -- arguments

    def _args(self, node: fx.Node) -> tuple[tuple[Arg, ...], dict[str, Arg]]:
        if node.op == "output":
            value = node.args[0]
            values = list(value.values()) if isinstance(value, dict) else value
            whole = self.base.structure == "tensor" or not isinstance(values, list | tuple)
            return tuple(self._arg(v) for v in ([values] if whole else values)), {}  # type: ignore[union-attr]
        if node.op in ("placeholder", "get_attr"):
            return (), {}
        return tuple(self._arg(a) for a in node.args), {k: self._arg(a) for k, a in node.kwargs.items()}

    def _ref(self, node: fx.Node) -> Arg:
        if node in self.kept:
            return Ref(self.kept[node])
        if node in self.made:
            return self.made[node]
        if is_effective(node, self.model) or self._is_item(node):
            source = self._arg(node.args[0])
            item = self._is_item(node) and isinstance(source, Ref)
            return replace(source, output=node.args[1]) if item else source  # type: ignore[type-var]
        raise PassError(f"{node.name} stands before its inputs.", "Insert nodes after what they use.")

    def _arg(self, value: object) -> Arg:
        return arg_of(value, self._ref)
