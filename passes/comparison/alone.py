"""Takes single differences of two graphs over: A with only some choices of B, where the structure allows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from espalier.model.errors import PassError
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, named_weights, without_unused_scales
from espalier.model.graph.meta import Adapter, Precision, Weight
from espalier.model.graph.node import Node, Ref, map_arg
from espalier.passes.comparison.changes import Change, Kind
from espalier.passes.comparison.groups import Group

STRUCTURE: frozenset[Kind] = frozenset({"added", "removed", "inputs", "shape"})
WRITTEN: frozenset[Kind] = frozenset({"title", "note", "colour", "muted", "parallelism"})  # change no value
INSTEAD = "Compare the states whole."


def changes_in(group: Group, changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that a group joins."""
    nodes = set(group.nodes)
    return tuple(c for c in changes if (c.kind, c.what) == (group.kind, group.what) and c.node in nodes)


def with_changes(a: Graph, b: Graph, changes: Iterable[Change], pairs: Mapping[str, str]) -> Graph:
    """Graph A with these changes alone taken from B; A itself where they change no value.

    `pairs`: node of B → its partner in A. Tensors keep their keys, so that a store of both is needed to build it.
    Raises PassError where a change cannot be made without others: of structure or shapes, or with an invalid result.
    """
    taking = _Taking(a, b, pairs, dict(a.nodes), dict(a.weights))
    changed = False
    for change in changes:
        if change.kind in STRUCTURE:
            raise PassError("The structure differs.", INSTEAD)
        if change.kind not in WRITTEN:
            taking.take(change)
            changed = True
    if not changed:
        return a
    weights = named_weights(taking.nodes.values(), taking.weights)
    after = without_unused_scales(replace(a, nodes=taking.nodes, weights=weights), a)
    if errors := [p for p in check(after, a) if p.severity == "error"]:
        raise PassError(f"It needs other changes: {errors[0].message}", INSTEAD, errors[0].node)
    return after


@dataclass(slots=True)
class _Taking:
    """The nodes and weights of A while changes are taken from B. `names`: weight of B → its name here."""

    a: Graph
    b: Graph
    pairs: Mapping[str, str]
    nodes: dict[str, Node]
    weights: dict[str, Weight]
    names: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, change: Change) -> None:
        """Take one change."""
        new, old = self.b[change.node], self.nodes[change.other]
        match change.kind:
            case "format" | "granularity":
                old = self._format(old, new, change.port)
            case "sparsity":
                others = {p: s for p, s in old.sparsity.items() if p != change.port}
                chosen = new.sparsity.get(change.port)
                old = replace(old, sparsity={**others, change.port: chosen} if chosen else others)
            case "weights" | "type":
                self._tensor(old, new, change.port)
            case "adapter":
                old = replace(old, adapters={p: self._adapter(x) for p, x in new.adapters.items()})
            case "attribute":
                others = {k: v for k, v in old.attrs.items() if k != change.port}
                held = {change.port: new.attrs[change.port]} if change.port in new.attrs else {}
                old = replace(old, attrs={**others, **held})
            case "arithmetic":
                old = replace(old, arithmetic=new.arithmetic)
            case _:
                old = self._operation(old, new, whole=change.kind == "op")
        self.nodes[old.id] = old

    def _format(self, old: Node, new: Node, port: str) -> Node:
        others = {p: c for p, c in old.precision.items() if p != port}
        chosen = new.precision.get(port)
        if chosen is None:
            return replace(old, precision=others)
        scale = self._added(chosen.scale) if chosen.scale else None
        return replace(old, precision={**others, port: replace(chosen, scale=scale)})

    def _adapter(self, adapter: Adapter) -> Adapter:
        return replace(adapter, a=self._added(adapter.a), b=self._added(adapter.b))

    def _added(self, name: str) -> str:
        """The name here of a tensor of B that A lacks, or has with other values."""
        if name not in self.names:
            weight, own = self.b.weights[name], name
            while own in self.weights and self.weights[own] != weight:
                own = f"{own}_b"
            self.weights[own] = weight
            self.names[name] = own
        return self.names[name]

    def _tensor(self, old: Node, new: Node, port: str) -> None:
        """The values of B under A's name; nodes of A that share it all take them."""
        mine, theirs = _tensor_at(old, port), _tensor_at(new, port)
        if mine is None or theirs is None:
            raise PassError("It needs other changes of the same tensor.", INSTEAD, old.id)
        held = self.weights[mine]
        self.weights[mine] = replace(self.b.weights[theirs], role=held.role, trainable=held.trainable, rests=held.rests)

    def _operation(self, old: Node, new: Node, *, whole: bool) -> Node:
        """The operation or the arguments of B's node, with A's inputs, tensors and choices."""
        refs = [self.pairs.get(r.node) for r in new.inputs]
        if refs != [r.node for r in old.inputs] or (whole and set(old.weights) != set(new.weights)):
            raise PassError("The structure differs.", INSTEAD, old.id)

        def here(ref: Ref) -> Ref:
            return replace(ref, node=self.pairs[ref.node])

        old = replace(old, args=tuple(map_arg(x, here) for x in new.args),
                      kwargs={k: map_arg(x, here) for k, x in new.kwargs.items()})  # fmt: skip
        return replace(old, op=new.op, call=new.call, target=new.target, attrs=new.attrs) if whole else old


def _tensor_at(node: Node, port: str) -> str | None:
    """The tensor that a change of values names: of a port, `weight scale`, or `weight lora_A`."""
    if port in node.weights:
        return node.weights[port]
    base, _, part = port.rpartition(" ")
    chosen: Precision | None = node.precision.get(base)
    if part == "scale":
        return chosen.scale if chosen else None
    adapter = node.adapters.get(base)
    return {"lora_A": adapter.a, "lora_B": adapter.b}.get(part) if adapter else None
