"""The residual stream of a transformer with RMSNorm, found by structure: who writes to it and who reads from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.ports import weight_at, weights_of
from espalier.passes.heads import token_embedding

State = Literal["stream", "power", "statistic"]
SAME = ("to", "cast", "dropout", "identity", "contiguous", "clone", "detach", "alias")
NUMBERS = ("sym_size",)
STATISTICS = ("add", "sub", "mul", "div", "rsqrt", "sqrt", "reciprocal", "pow", "to", "clone", "contiguous")
NORMS = "It takes a model whose blocks read a sum of results through RMSNorm, such as Llama."


@dataclass(slots=True)
class Stream:
    """`size` channels. `embedding`: its tokens' weight. `writers`: Linears whose results are added to it. `readers`:
    Linears that read it, with the gains of the norm between (names of weights). `gains`: all of those.
    """

    size: int
    embedding: str
    writers: list[str] = field(default_factory=list[str])
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    gains: set[str] = field(default_factory=set[str])


class Unrotatable(Exception):
    """The stream cannot be rotated: why, and the node."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node


def stream_of(graph: Graph) -> Stream:
    """The residual stream; raises Unrotatable, which names the first node that a rotation would change."""
    return _Search(graph).found()


class _Search:
    """Follows the embedding of the tokens through the graph. `gains` by node: those not yet read."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.users = graph, graph.users()
        self.states: dict[str, State] = {}
        self.gains: dict[str, tuple[str, ...]] = {}

    def found(self) -> Stream:
        """The stream."""
        start = self._start()
        name = weight_at(start, "weight", self.graph)
        assert name is not None
        self.stream = Stream(self.graph.weights[name].shape[1], name)
        self.states[start.id] = "stream"
        for node in self.graph:
            states = [self.states[r.node] for r in node.inputs if r.node in self.states]
            if states and node.op not in NUMBERS:
                self._visit(node, states)
        if not self.stream.writers:
            raise Unrotatable(start, f"nothing is added to the result of {start.id}")
        self._check_weights()
        return self.stream

    def _start(self) -> Node:
        tokens = token_embedding(self.graph)
        if tokens is None:
            raise Unrotatable(next(iter(self.graph)), "it has no embedding of its inputs")
        return tokens

    def _visit(self, node: Node, states: Sequence[str]) -> None:
        if "statistic" in states and "stream" not in states:
            self._statistic(node)
        elif "power" in states:
            self._mean(node)
        elif node.op in SAME:
            self._pass_on(node)
        elif node.op in ("slice", "select", "index_select"):
            self._sliced(node)
        elif node.op in ("add", "mul", "div", "pow", "rms_norm", "linear"):
            getattr(self, f"_{node.op}")(node)
        elif node.op == "layer_norm":
            raise Unrotatable(node, f"{node.id} (layer_norm) subtracts a mean over channels, which a rotation changes")
        elif node.op == "output":
            raise Unrotatable(node, "its channels are a result of the model")
        else:
            raise Unrotatable(node, f"{node.id} ({node.op}) computes with single channels")

    # -- operations

    def _pass_on(self, node: Node, *more: str) -> None:
        self.states[node.id] = "stream"
        before = next(self.gains.get(r.node, ()) for r in node.inputs if self.states.get(r.node) == "stream")
        if gains := (*before, *more):
            self.gains[node.id] = gains

    def _sliced(self, node: Node) -> None:
        axis = node.args[1] if len(node.args) > 1 else 0
        rank = len(node.ports["data_in"].shape)
        if not isinstance(axis, int) or axis % rank == rank - 1:
            raise Unrotatable(node, f"{node.id} ({node.op}) takes single channels")
        self._pass_on(node)

    def _add(self, node: Node) -> None:
        self._no_gains(node)
        for arg in node.inputs:
            if self.states.get(arg.node) != "stream":
                self.stream.writers.append(self._writer(node, arg).id)
        if len(node.inputs) < 2 or any(isinstance(v, int | float) and v != 1 for v in node.kwargs.values()):
            raise Unrotatable(node, f"{node.id} (add) adds a number to all channels")
        self._pass_on(node)

    def _writer(self, at: Node, arg: Ref) -> Node:
        node = self.graph.nodes[arg.node]
        while node.op in SAME and isinstance(node.args[0], Ref) and len(self.users[node.id]) == 1:
            node = self.graph.nodes[node.args[0].node]
        if node.op != "linear" or weight_at(node, "weight", self.graph) is None:
            raise Unrotatable(at, f"{node.id} ({node.op}) is added to the stream and is no Linear")
        if len(self.users[node.id]) > 1:
            raise Unrotatable(at, f"{node.id} is added to the stream and also feeds other nodes")
        return node

    def _mul(self, node: Node) -> None:
        others = [r for r in node.inputs if self.states.get(r.node) != "stream"]
        if len(others) != 1 or len(node.inputs) != 2:
            if not others and len(node.inputs) == 1 and len(set(node.args)) == 2:
                self._pass_on(node)  # by a number
                return
            raise Unrotatable(node, f"{node.id} (mul) multiplies channels by one another")
        other = self.graph.nodes[others[0].node]
        if self.states.get(other.id) == "statistic" or (other.op == "get_attr" and _count(other) == 1):
            self._pass_on(node)
            return
        name = weight_at(other, "value", self.graph) or other.weights.get("value")
        if other.op != "get_attr" or name is None or _count(other) != self.stream.size:
            raise Unrotatable(node, f"{node.id} (mul) scales channels by {other.id}, which is no stored gain")
        self._gain(node, name, other)

    def _gain(self, node: Node, name: str, holder: Node) -> None:
        users = {n.id for n in self.graph for _, w in weights_of(n, self.graph) if w == name}
        if users - {holder.id, node.id}:
            raise Unrotatable(node, f"{node.id} shares its gain with another node")
        self.stream.gains.add(name)
        self._pass_on(node, name)

    def _div(self, node: Node) -> None:
        other = node.args[1] if len(node.args) > 1 else None
        scalar = isinstance(other, int | float) or (
            isinstance(other, Ref) and self.states.get(other.node) == "statistic"
        )
        if not scalar:
            raise Unrotatable(node, f"{node.id} (div) divides channels by one another")
        self._pass_on(node)

    def _pow(self, node: Node) -> None:
        self._no_gains(node)
        if len(node.args) < 2 or node.args[1] != 2:
            raise Unrotatable(node, f"{node.id} (pow) computes with single channels")
        self.states[node.id] = "power"

    def _rms_norm(self, node: Node) -> None:
        name = weight_at(node, "weight", self.graph)
        if name is None:
            self._pass_on(node)
        else:
            self._gain(node, name, node)

    def _linear(self, node: Node) -> None:
        name = weight_at(node, "weight", self.graph)
        if name is None or node.inputs[0] != node.args[0] or self.states.get(node.inputs[0].node) != "stream":
            raise Unrotatable(node, f"{node.id} reads the stream and has no stored weight")
        self.stream.readers[node.id] = self.gains.get(node.inputs[0].node, ())

    def _mean(self, node: Node) -> None:
        axes = node.args[1] if len(node.args) > 1 else None
        last = len(node.ports["data_in"].shape) - 1
        if node.op not in ("mean", "sum") or axes not in (-1, [-1], (-1,), last, [last], (last,)):
            raise Unrotatable(node, f"{node.id} ({node.op}) computes with squares of single channels")
        self.states[node.id] = "statistic"

    def _statistic(self, node: Node) -> None:
        if node.op not in STATISTICS:
            raise Unrotatable(node, f"{node.id} ({node.op}) computes with the norm of the stream")
        self.states[node.id] = "statistic"

    def _no_gains(self, node: Node) -> None:
        if any(self.gains.get(r.node) for r in node.inputs):
            raise Unrotatable(node, f"{node.id} ({node.op}) reads the stream after a gain, and only Linears absorb one")

    # -- weights

    def _check_weights(self) -> None:
        """Raise Unrotatable for a weight that others use, or that has choices which a rotation would break."""
        stream, tied = self.stream, {self.stream.embedding}
        shared: dict[str, list[str]] = {}
        for node in self.graph:
            for _, name in weights_of(node, self.graph):
                shared.setdefault(name, []).append(node.id)
        for node in (self.graph.nodes[i] for i in (*stream.writers, *stream.readers)):
            name = weight_at(node, "weight", self.graph)
            assert name is not None
            if len(shared[name]) > 1 and not (name in tied and node.id in stream.readers and len(shared[name]) == 2):
                raise Unrotatable(node, f"{node.id} shares its weight with another node")
            if node.adapters or node.sparsity:
                raise Unrotatable(node, f"{node.id} has an adapter or is pruned; rotate before")
            if any(p.scale for p in node.precision.values()):
                raise Unrotatable(node, f"{node.id} has a fixed scale; rotate before calibrating or rounding")


def _count(node: Node) -> int:
    """Elements of a stored vector or number; 0 for other tensors."""
    shape: Mapping[int, object] | tuple[object, ...] = node.out.shape if node.out else (0, 0)
    return 1 if not shape else int(str(shape[0])) if len(shape) == 1 else 0
