"""The sets of units of a graph: what each is, in which tensors it lies, and what holds it."""

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
    """A dimension of a node's stored tensor in which the units of a set lie."""

    node: str
    port: str
    weight: str
    dim: int
    role: Literal["rows", "columns", "own"]


@dataclass(frozen=True, slots=True)
class Units:
    """A set of units that go one by one, each from all members at once.

    `blocked`: why none can go. `norm`: a node whose statistics change, so that removal is not exact.
    """

    axis: Axis
    kind: Kind
    members: tuple[Member, ...]
    blocked: Reason | None = None
    norm: str | None = None

    @property
    def size(self) -> int:
        """How many units there are."""
        return self.axis.size.count

    @property
    def first(self) -> Member:
        """The member that the set is named after: the first that gives the units."""
        return next((m for m in self.members if m.role == "rows"), self.members[0])


@dataclass(slots=True)
class Structure:
    """The sets of a graph in its order, and the walk that they come from."""

    graph: Graph
    flow: Flow
    sets: tuple[Units, ...] = ()
    shared: dict[str, list[Member]] = field(default_factory=dict)  # type: ignore[assignment]

    def dims(self, member: Member) -> Dims:
        """The dimension that a member names."""
        return self.flow.weights[member.weight][member.dim]

    def place(self, member: Member, axis: Axis, gone: Kept) -> Kept:
        """Which places of a member's dimension belong to the units `gone` of `axis`."""
        return ~kept(self.dims(member), {axis: ~gone})


def structure_of(graph: Graph) -> Structure:
    """The sets of a graph; raises PassError for a recorded model."""
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so nothing can be taken out of it.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    flow = Flow(graph).walk()
    found: dict[Axis, list[Member]] = {}
    for member in _members(graph, flow):
        for axis in dict.fromkeys(units(flow.weights[member.weight][member.dim])):
            found.setdefault(axis, []).append(member)
    marks = _Marks(flow)
    sets = [_units(axis, members, marks) for axis, members in found.items() if axis.size.count > 1]
    return Structure(graph, flow, tuple(_told_apart(sets, flow)))


def _told_apart(sets: list[Units], flow: Flow) -> Iterator[Units]:
    """Of two kinds of heads or channels that cross in one dimension the lesser gets a name of its own.

    So half of the heads are half: the groups that share a key and a value, and not half of each group's queries too.
    """
    places: dict[tuple[str, int], list[Units]] = {}
    for held in sets:
        if held.kind in ("heads", "channels"):
            for place in dict.fromkeys((m.weight, m.dim) for m in held.members):
                places.setdefault(place, []).append(held)
    lesser = {
        min(pair, key=lambda s: (len(s.members), s.size)).axis
        for (name, dim), found in places.items()
        for pair in itertools.combinations(found, 2)
        if pair[0].kind == pair[1].kind and _cross(flow.weights[name][dim], *pair)
    }
    for held in sets:
        kind: Kind = "queries" if held.kind == "heads" else "other"
        yield replace(held, kind=kind) if held.axis in lesser else held


def _cross(dims: Dims, one: Units, other: Units) -> bool:
    return bool(((numbers(dims, one.axis) >= 0) & (numbers(dims, other.axis) >= 0)).any())


def _members(graph: Graph, flow: Flow) -> Iterator[Member]:
    for node in graph:
        for port, name in stored(node, graph).items():
            count = len(flow.weights.get(name, ()))  # a convolution's window has no units
            for dim in range(min(count, 2) if node.op.startswith("conv") else count):
                yield Member(node.id, port, name, dim, _role(node, port, dim))


def stored(node: Node, graph: Graph) -> dict[str, str]:
    """Port → stored tensor: a module's own, those that a function takes by a name, any other as "value"."""
    if node.call in ("call_module", "get_attr"):
        return dict(node.weights)
    if node.call != "call_function":
        return {}
    return {p: name for p in PORTS if (name := weight_at(node, p, graph))}


def _role(node: Node, port: str, dim: int) -> Literal["rows", "columns", "own"]:
    """Whether a layer gives (rows) or takes (columns) along a dimension; "own": neither, as in a norm."""
    kind = category(node)
    if node.call == "get_attr" or kind not in ("linear", "matmul", "embedding"):
        return "own"
    if port == "bias":
        return "rows"
    turned = node.attrs.get("class") == "Conv1D" or "transpose" in node.op or kind in ("embedding", "matmul")
    return "rows" if dim == int(turned) else "columns"


class _Marks:
    """What was marked along each plain axis."""

    def __init__(self, flow: Flow) -> None:
        self.found: dict[str, dict[Axis, str]] = {}
        for mark, axes, node in flow.marks:
            for axis in units(axes):
                self.found.setdefault(mark, {}).setdefault(axis, node)

    def at(self, mark: str, axis: Axis) -> str | None:
        return self.found.get(mark, {}).get(axis)


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
