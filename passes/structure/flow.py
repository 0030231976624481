"""Unifies the axes of a graph's tensors in one walk, by a rule for each operation.

A rule returns the shapes of a node's results; it may hold axes, mark them, and register how the node is rewritten when
units are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Arg
from espalier.model.registry import Registry
from espalier.passes.structure.axes import Axis, Dims, Kept, Reason, Shape, fix, kept, new, new_size
from espalier.passes.structure.sizes import Size, size_of

Mark = Literal["heads", "inside", "conv", "normed", "added", "table"]
Rewrite = Callable[["Cut", Node], Node]
Rule = Callable[["Flow", Node], "Shape | list[Shape]"]
RULES: Registry[str, Rule] = Registry(
    "axis rule", packages=("espalier.passes.structure.rules_shape", "espalier.passes.structure.rules_math")
)


def rule(*ops: str, replace: bool = False) -> Callable[[Rule], Rule]:
    """Register the axis rule of operations; `replace`: replaces a built-in rule."""
    return RULES.register(*ops, replace=replace)


@dataclass(frozen=True, slots=True)
class Cut:
    """The remaining units of each axis."""

    left: Mapping[Axis, Kept]

    def size(self, dims: Dims) -> Size:
        """The new size of a dimension."""
        return new_size(dims, self.left)

    def count(self, dims: Dims) -> int:
        """The new size of a static dimension."""
        return self.size(dims).count

    def kept(self, dims: Dims) -> Kept:
        """Mask of its remaining elements."""
        return kept(dims, self.left)


class Flow:
    """The dimensions of all tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.shapes: dict[Ref, Shape] = {}
        self.weights: dict[str, Shape] = {}
        self.rewrites: dict[str, Rewrite] = {}
        self.marks: list[tuple[Mark, tuple[Axis, ...], str]] = []
        self.held: list[tuple[tuple[Axis, ...], Reason]] = []
        self.stored: dict[Ref, bool] = {}

    def walk(self) -> Flow:
        """Visit all nodes; afterwards all axes are unified, and those that cannot change are fixed."""
        for node in self.graph:
            self._step(node)
        for axes, reason in self.held:
            fix(axes, reason)
        return self

    def _step(self, node: Node) -> None:
        rule_ = RULES.find(node.op)
        shapes = rule_(self, node) if rule_ and node.call != "opaque" else unknown(self, node)
        results = shapes if isinstance(shapes, list) else [shapes]
        for number, shape in enumerate(results):
            meta = node.ports.get(out_port(number))
            if meta is not None:
                ref = Ref(node.id, number)
                self.shapes[ref] = shape if len(shape) == len(meta.shape) else self.fresh(meta, node)
                self.stored[ref] = node.call == "get_attr" or self._of_stored(node)

    def _of_stored(self, node: Node) -> bool:
        return bool(node.inputs) and all(self.stored.get(r, r not in self.shapes) for r in node.inputs)

    # -- for rules

    def of(self, arg: Arg) -> Shape | None:
        """The shape of a tensor argument; None for other arguments."""
        return self.shapes.get(arg) if isinstance(arg, Ref) else None

    def first(self, node: Node) -> Shape:
        """The shape of a node's first argument."""
        shape = self.of(node.args[0]) if node.args else None
        return shape if shape is not None else ()

    def weight(self, node: Node, port: str, position: int | None = None) -> Shape | None:
        """The shape of a module's stored tensor, or of a function's corresponding argument."""
        if node.call == "call_module":
            return self.named(node.weights[port]) if port in node.weights else None
        return self.of(argument(node, position, port)) if position is not None else None

    def named(self, name: str) -> Shape:
        """The shape of a stored tensor."""
        if name not in self.weights:
            self.weights[name] = tuple(new(Size(n)) for n in self.graph.weights[name].shape)
        return self.weights[name]

    def fresh(self, meta: TensorMeta, node: Node, why: str = "") -> Shape:
        """A new shape of fixed axes."""
        reason = Reason(node.id, why or f"{node.op} has no axis rule")
        return tuple(new(size_of(d), reason) for d in meta.shape)

    def outs(self, node: Node, why: str = "") -> list[Shape]:
        """New shapes of fixed axes for all results of a node."""
        metas = [node.ports.get(out_port(i)) for i in range(node.outputs or 1)]
        return [self.fresh(m, node, why) if m else () for m in metas]

    def hold(self, axes: Iterable[Axis], node: Node, why: str) -> None:
        """Fix axes, and all that they are unified with later."""
        self.held.append((tuple(axes), Reason(node.id, why)))

    def mark(self, kind: Mark, axes: Iterable[Axis], node: Node) -> None:
        """Mark axes with their role in a node."""
        self.marks.append((kind, tuple(axes), node.id))

    def inputs(self, node: Node) -> list[Shape]:
        """The shapes of all inputs and stored tensors of a node."""
        inputs = [self.shapes[r] for r in dict.fromkeys(node.inputs) if r in self.shapes]
        return inputs + [self.named(n) for n in node.weights.values()]


def unknown(flow: Flow, node: Node) -> list[Shape]:
    """An operation without a rule: its inputs and results are fixed."""
    why = f"{node.op} has no axis rule" if node.call != "output" else "it is an output of the model"
    for shape in flow.inputs(node):
        for dims in shape:
            flow.hold(dims, node, why)
    return flow.outs(node, why)


def argument(node: Node, position: int | None, name: str) -> Any:
    """A function's argument by position or by name."""
    if position is not None and position < len(node.args):
        return node.args[position]
    return node.kwargs.get(name)


def option(node: Node, name: str, position: int, default: Any = None) -> Any:
    """An option of a module (by its name) or of a function (by position or name)."""
    if node.call == "call_module":
        value = node.attrs.get(name, default)
    else:
        value = argument(node, position, name)
    return default if value is None else value


def reason(node: Node, text: str) -> Reason:
    """The reason why `node` fixes an axis."""
    return Reason(node.id, text)
