"""Sets of coupled units of a graph: kind, member tensors, and reasons why they are fixed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at
from espalier.passes.structure.axes import Axis, Dims, Kept, Reason, kept, numbers, units
from espalier.passes.structure.flow import Flow

Kind = Literal["heads", "queries", "neurons", "channels", "width", "other"]
PORTS = ("weight", "bias")


@dataclass(frozen=True, slots=True)
class Member:
    """A dimension of a node's stored tensor that contains the units of a set."""

    node: str
    port: str
    weight: str
    dim: int
    role: Literal["rows", "columns", "own"]


@dataclass(frozen=True, slots=True)
class Units:
    """A set of units; each is removed from all members together.

    `blocked`: why none can be removed. `norm`: a node whose statistics change, so that removal is not exact.
    """

    axis: Axis
    kind: Kind
    members: tuple[Member, ...]
    blocked: Reason | None = None
    norm: str | None = None

    @property
    def size(self) -> int:
        """Number of units."""
        return self.axis.size.count

    @property
    def first(self) -> Member:
        """The member that names the set: the first that produces the units."""
        return next((m for m in self.members if m.role == "rows"), self.members[0])


@dataclass(slots=True)
class Structure:
    """The sets of a graph in its order, and its axes."""

    graph: Graph
    flow: Flow
    sets: tuple[Units, ...] = ()
    shared: dict[str, list[Member]] = field(default_factory=dict)  # type: ignore[assignment]

    def dims(self, member: Member) -> Dims:
        """The dimension of a member."""
        return self.flow.weights[member.weight][member.dim]

    def place(self, member: Member, axis: Axis, gone: Kept) -> Kept:
        """Mask of the elements of a member's dimension that belong to the units `gone` of `axis`."""
        return ~kept(self.dims(member), {axis: ~gone})


def structure_of(graph: Graph) -> Structure:
    """The sets of a graph; raises PassError for a recorded model."""
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so nothing can be removed from it.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    flow = Flow(graph).walk()
    members_of: dict[Axis, list[Member]] = {}
    for member in _members(graph, flow):
        for axis in dict.fromkeys(units(flow.weights[member.weight][member.dim])):
            members_of.setdefault(axis, []).append(member)
    marks = _Marks(flow)
    sets = [_units(axis, members, marks) for axis, members in members_of.items() if axis.size.count > 1]
    return Structure(graph, flow, tuple(_distinguished(sets, flow)))


def _distinguished(sets: list[Units], flow: Flow) -> Iterator[Units]:
    """If two sets of heads or channels cross in one dimension, the smaller one gets another kind.

    Pruning half of the heads then prunes half of the groups that share a key and a value, not half of each group's
    queries too.
    """
    sets_of: dict[tuple[str, int], list[Units]] = {}
    for one in sets:
        if one.kind in ("heads", "channels"):
            for dimension in dict.fromkeys((m.weight, m.dim) for m in one.members):
                sets_of.setdefault(dimension, []).append(one)
    smaller = {
        min(pair, key=lambda s: (len(s.members), s.size)).axis
        for (name, dim), crossing in sets_of.items()
        for pair in itertools.combinations(crossing, 2)
        if pair[0].kind == pair[1].kind and _cross(flow.weights[name][dim], *pair)
    }
    for one in sets:
        kind: Kind = "queries" if one.kind == "heads" else "other"
        yield replace(one, kind=kind) if one.axis in smaller else one


def _cross(dims: Dims, one: Units, other: Units) -> bool:
    return bool(((numbers(dims, one.axis) >= 0) & (numbers(dims, other.axis) >= 0)).any())


def _members(graph: Graph, flow: Flow) -> Iterator[Member]:
    for node in graph:
        for port, name in stored(node, graph).items():
            count = len(flow.weights.get(name, ()))  # without the kernel dimensions of a convolution
            for dim in range(min(count, 2) if node.op.startswith("conv") else count):
                yield Member(node.id, port, name, dim, _role(node, port, dim))


def stored(node: Node, graph: Graph) -> dict[str, str]:
    """Port → stored tensor: of a module, of a function's weight and bias, or a stored tensor itself as "value"."""
    if node.call in ("call_module", "get_attr"):
        return dict(node.weights)
    if node.call != "call_function":
        return {}
    return {p: name for p in PORTS if (name := weight_at(node, p, graph))}


def _role(node: Node, port: str, dim: int) -> Literal["rows", "columns", "own"]:
    """Whether a dimension indexes results (rows) or inputs (columns) of a layer; "own": neither, as in a norm."""
    kind = category(node)
    if node.call == "get_attr" or kind not in ("linear", "matmul", "embedding"):
        return "own"
    if port == "bias":
        return "rows"
    turned = node.attrs.get("class") == "Conv1D" or "transpose" in node.op or kind in ("embedding", "matmul")
    return "rows" if dim == int(turned) else "columns"


class _Marks:
    """The marks of each plain axis."""

    def __init__(self, flow: Flow) -> None:
        self.nodes: dict[str, dict[Axis, str]] = {}
        for mark, axes, node in flow.marks:
            for axis in units(axes):
                self.nodes.setdefault(mark, {}).setdefault(axis, node)

    def at(self, mark: str, axis: Axis) -> str | None:
        return self.nodes.get(mark, {}).get(axis)


def _units(axis: Axis, members: list[Member], marks: _Marks) -> Units:
    norm = marks.at("normed", axis)
    return Units(axis, _kind(axis, members, marks), tuple(members), axis.fixed, norm)


def _kind(axis: Axis, members: list[Member], marks: _Marks) -> Kind:
    if marks.at("heads", axis):
        return "heads"
    if marks.at("normed", axis) and (marks.at("added", axis) or marks.at("table", axis)):
        return "width"
    if marks.at("conv", axis):
        return "channels"
    roles = {m.role for m in members}
    if marks.at("inside", axis):
        return "other"
    return "neurons" if "rows" in roles else "other"
