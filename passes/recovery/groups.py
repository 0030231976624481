"""Groups of Linears with a common input, and whether a scale of its channels can be folded into its producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.ports import weights_of
from espalier.passes.recovery.attention_values import MOVES, values_of
from espalier.passes.recovery.layers import Layer, layer_at

# f(x·s) = f(x)·s for s > 0, element by element along the last axis.
_HOMOGENEOUS = ("relu", "leaky_relu", "dropout", "identity", "kv_cache", "contiguous", "clone", "detach", "alias")


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that read `source`. `producers`: (weight name, channel axis) of the source's producer, for folding the
    division; empty if it must be a node of its own."""

    source: Ref
    layers: tuple[Layer, ...]
    producers: tuple[tuple[str, int], ...] = ()

    @property
    def consumers(self) -> tuple[Node, ...]:
        """The Linears."""
        return tuple(n for x in self.layers for n in x.nodes)


Refusal = tuple[tuple[Node, ...], str]


def groups_of(nodes: Iterable[Node], graph: Graph, insert: bool) -> Iterator[Group | Refusal]:
    """Groups of the selected Linears `nodes`, or Linears with the reason why they form none.

    A folded group contains all Linears that read its source; a group with an inserted division those among `nodes`.
    """
    users, selected = graph.users(), {n.id for n in nodes}
    done: set[str] = set()
    for node in (graph.nodes[i] for i in graph.nodes if i in selected):
        if node.id in done:
            continue
        root = _root(node.args[0], graph)
        group = _folded(root, graph, users)
        if isinstance(group, str) and insert:
            siblings = [graph.nodes[u] for u in users[_source(node).node] if u in selected]
            why, group = group, _divided(_source(node), [n for n in siblings if n.args[0] == node.args[0]], graph)
            group = f"{why}, and {group}" if isinstance(group, str) else group
        done.update((node.id,) if isinstance(group, str) else (n.id for n in group.consumers))
        yield ((node,), group) if isinstance(group, str) else group


def _source(node: Node) -> Ref:
    source = node.args[0]
    assert isinstance(source, Ref)
    return source


def _root(arg: object, graph: Graph) -> Ref:
    """The tensor before functions that commute with a positive scale."""
    assert isinstance(arg, Ref)
    node = graph.nodes[arg.node]
    return _root(node.args[0], graph) if node.op in _HOMOGENEOUS and isinstance(node.args[0], Ref) else arg


def _folded(root: Ref, graph: Graph, users: Mapping[str, tuple[str, ...]]) -> Group | str:
    consumers: list[Node] = []
    for source, user in _behind(root.node, graph, users):
        if user.op != "linear" or user.args[0] != Ref(source) or user.inputs.count(Ref(source)) != 1:
            return f"{root.node} also feeds {user.id}, which its scale would change"
        consumers.append(user)
    producers = _divisible(_producer(graph.nodes[root.node], graph, users), graph)
    if isinstance(producers, str):
        return producers
    layers = _layers(consumers, graph)
    return layers if isinstance(layers, str) else Group(root, layers, producers)


def _behind(name: str, graph: Graph, users: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Node]]:
    """(tensor, user) of all users of a tensor, through homogeneous functions."""
    for user in (graph.nodes[u] for u in users[name]):
        if user.op in _HOMOGENEOUS and user.inputs == (Ref(name),):
            yield from _behind(user.id, graph, users)
        else:
            yield name, user


def _producer(node: Node, graph: Graph, users: Mapping[str, tuple[str, ...]]) -> Node | str:
    """The node whose weights give the channels: of a gated unit or behind an attention a Linear."""
    if node.op in MOVES:
        return values_of(node, graph, users)
    return _gated(node, graph, users)


def _gated(node: Node, graph: Graph, users: Mapping[str, tuple[str, ...]]) -> Node:
    """For a product with a Linear's result that nothing else uses (a gated unit) that Linear, otherwise the node."""
    factors = [graph.nodes[r.node] for r in node.inputs if node.op == "mul" and node.inputs.count(r) == 1]
    return next((f for f in factors if f.op == "linear" and users[f.id] == (node.id,) and f.out == node.out), node)


def _divisible(node: Node | str, graph: Graph) -> tuple[tuple[str, int], ...] | str:
    """(stored tensor, axis) whose division divides the channels of the node's result, or why there are none."""
    if isinstance(node, str):
        return node
    if node.adapters:
        return f"{node.id} has an adapter; fuse it first"
    names = dict(weights_of(node, graph))
    weight, bias = names.get("weight"), names.get("bias")
    affine = node.op in ("layer_norm", "rms_norm") and weight and len(graph.weights[weight].shape) == 1
    if node.op == "mul":
        gains = [
            k for k in names.values() if len(graph.weights[k].shape) == 1 and node.out and _is_last(k, node, graph)
        ]
        tensors = tuple((k, 0) for k in gains[:1])
    elif weight and (affine or node.op == "linear"):
        axis = 1 if node.attrs.get("class") == "Conv1D" else 0
        tensors = ((weight, axis), *(((bias, 0),) if bias else ()))
    else:
        tensors = ()
    if not tensors:
        return f"{node.id} ({node.op}) has no weights into which the division can be folded"
    if node.sparsity.keys() - {"weight"} or any(p.scale for p in node.precision.values()):
        return f"{node.id} has a fixed scale"
    shared = next((k for k, _ in tensors if _users(k, graph) != [node.id]), None)
    return f"{node.id} shares {shared} with another node" if shared else tensors


def _is_last(name: str, node: Node, graph: Graph) -> bool:
    """Whether a stored vector has one element per channel of the result."""
    return node.out is not None and graph.weights[name].shape == node.out.shape[-1:] != (1,)


def _users(name: str, graph: Graph) -> list[str]:
    return [n.id for n in graph for _, weight in weights_of(n, graph) if weight == name]


def _layers(consumers: list[Node], graph: Graph) -> tuple[Layer, ...] | str:
    """The layers of the consumers, or a reason if a weight is used elsewhere or has a fixed scale."""
    ids, layers = {n.id for n in consumers}, dict[str, Layer]()
    for node in consumers:
        layer = layer_at(node, graph)
        if isinstance(layer, str):
            return f"{node.id} cannot be scaled: {layer}"
        if not {n.id for n in layer.nodes} <= ids:
            return f"{node.id} shares its weight with a layer that takes another input"
        if node.adapters:
            return f"{node.id} has an adapter, which would not be scaled; fuse it first"
        if any(node.precision[p].scale for p in ("weight", "data_in") if p in node.precision):
            return f"{node.id} has a fixed scale; calibrate after channels are scaled, not before"
        layers[layer.name] = layer
    return tuple(layers.values())


def _divided(source: Ref, consumers: list[Node], graph: Graph) -> Group | str:
    layers = _layers(consumers, graph)
    return layers if isinstance(layers, str) else Group(source, layers)
