"""Decoding with a cache: a built graph runs on new tokens alone, over the keys and values of the tokens before.

Values that do not depend on tokens (masks, positions) are computed once for the longest text and cut to the new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, fx

from espalier.model.errors import GraphError
from espalier.model.graph.caches import ATTENTION, OP, cache_nodes, caches, with_node
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.views import MATMULS
from espalier.model.torch.build import NODE, PORT, build, device_of
from espalier.passes.tasks.scores import token_scores

if TYPE_CHECKING:
    from espalier.passes.base import Context

# What the sequence axes of a tensor are: new tokens, all tokens, or new tokens × all tokens.
Kind = Literal["rows", "keys", "scores"]
SAME = 0.02  # relative difference of scores that rounding may cause
_SHAPED = ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty")


def agree(one: Tensor, other: Tensor) -> bool:
    """Whether two runs give the same scores but for rounding, which may turn single codes of formats."""
    spread = float((other - other.mean()).square().mean().sqrt())
    return float((one - other).square().mean().sqrt()) <= SAME * max(spread, 1e-12)


def with_caches(graph: Graph) -> Graph:
    """The graph with a `kv_cache` node for each cache; raises GraphError for a model without."""
    found = caches(graph)
    if not found and not any(cache_nodes(graph)):
        raise GraphError("The model has no causal attention with a cache.", "Run the whole text for each token.")
    for cache in found:
        if cache.node is None:
            graph, _ = with_node(graph, cache)
    return graph


@dataclass(frozen=True, slots=True)
class _Span:
    """New tokens [start, stop)."""

    start: int
    stop: int


class CachedDecoder:
    """Scores of the next token of texts of at most `longest` tokens; it keeps the keys and values of the last text."""

    def __init__(self, graph: Graph, context: Context, longest: int) -> None:
        self.graph = with_caches(graph)
        self.longest = longest
        self.module: Any = build(self.graph, context.store, context.callables, packed=True)
        self.nodes = [n for n in self.module.graph.nodes if isinstance(n, fx.Node)]
        self.tokens: list[int] = []
        self.held: dict[fx.Node, Tensor] = {}
        self.kinds = _Kinds(self.graph, self.nodes)
        self.fixed = self._fixed()
        self._counts: dict[int, dict[fx.Node, Any]] = {}

    def scores(self, tokens: list[int]) -> Tensor:
        """float64 [vocabulary] of the token after `tokens`; raises GraphError for a text beyond `longest`."""
        if len(tokens) > self.longest:
            raise GraphError(f"The text has {len(tokens)} tokens; {self.longest} were expected.", "Give a shorter one.")
        same = next((i for i, (a, b) in enumerate(zip(self.tokens, tokens, strict=False)) if a != b),
                    min(len(self.tokens), len(tokens)))  # fmt: skip
        span = _Span(min(same, len(tokens) - 1), len(tokens))
        self.held = {n: x[:, :, : span.start] for n, x in self.held.items()}
        with torch.no_grad():
            result = self._run(torch.tensor([tokens[span.start :]]), span)
        self.tokens = list(tokens)
        found = token_scores(result)
        assert found is not None
        return found[0, -1].double()

    # -- values that depend on no token

    def _inputs(self, ids: Tensor) -> dict[str, Tensor]:
        """Inputs by name for token ids [1, tokens]."""
        names = [n.target for n in self.graph.placeholders]
        return {n: ids if n == self.kinds.ids else torch.ones_like(ids) for n in names if n != "labels"}

    def _fixed(self) -> dict[fx.Node, Any]:
        """The values for the longest text."""
        return self._values(self.longest, lambda n: n not in self.kinds.of)

    def _values(self, length: int, wanted: Callable[[fx.Node], bool]) -> dict[fx.Node, Any]:
        values: dict[fx.Node, Any] = {}
        inputs = self._inputs(torch.zeros(1, length, dtype=torch.int64))
        with torch.no_grad():
            for node in self.nodes:
                if node.op == "placeholder":
                    values[node] = inputs.get(str(node.target))
                elif node.op != "output" and wanted(node):
                    values[node] = self._call(node, lambda n: _known(n, values))
        return values

    def _counted(self, length: int) -> dict[fx.Node, Any]:
        """Numbers that are computed from the sizes of inputs, for texts of `length` tokens."""
        if length not in self._counts:
            self._counts = {k: v for k, v in self._counts.items() if k == 1}
            self._counts[length] = self._values(length, lambda n: n in self.kinds.numbers)
        return self._counts[length]

    # -- a run

    def _run(self, ids: Tensor, span: _Span) -> Any:
        values: dict[fx.Node, Any] = {}
        for node in self.nodes:
            if node.op == "output":
                return fx.map_arg(node.args[0], lambda n: values[n])
            if node.op == "placeholder":
                values[node] = ids if node.target == self.kinds.ids else None
            elif node in self.kinds.of:
                value = self._call(node, lambda n, user=node: self._operand(n, user, values, span), span)
                values[node] = self._appended(node, value) if node in self.kinds.caches else value
        raise AssertionError("a graph has an output")

    def _appended(self, node: fx.Node, value: Tensor) -> Tensor:
        self.held[node] = torch.cat([self.held[node], value], 2) if node in self.held else value
        return self.held[node]

    def _operand(self, node: fx.Node, user: fx.Node, values: Mapping[fx.Node, Any], span: _Span) -> Any:
        """A value as an operand of `user`: of the new tokens, a number for their count, or cut to them."""
        if node in self.kinds.of:
            return values[node]
        if node in self.kinds.numbers:
            keys = self.kinds.of[user] == "keys" and user not in self.kinds.caches
            return self._counted(span.stop if keys else span.stop - span.start)[node]
        value = self.fixed[node]
        return self._cut(value, node, user, span) if isinstance(value, Tensor) else value

    def _cut(self, value: Tensor, node: fx.Node, user: fx.Node, span: _Span) -> Tensor:
        """The rows of the new tokens, and the columns of all."""
        axes, kind = self.kinds.axes(node), self.kinds.of[user]
        attends = self.kinds.op(user) == ATTENTION
        for axis in axes:
            column = axis == -1 and (attends or kind == "scores")
            first = 0 if column or (kind == "keys" and not attends) else span.start
            value = value.narrow(axis, first, span.stop - first)
        return value

    def _call(self, node: fx.Node, value: Callable[[fx.Node], Any], span: _Span | None = None) -> Any:
        args, kwargs = fx.map_arg(node.args, value), fx.map_arg(node.kwargs, value)
        if node.op == "get_attr":
            return _attribute(self.module, str(node.target))
        if node.op == "call_module":
            return self.module.get_submodule(str(node.target))(*args, **kwargs)
        if span is not None and self.kinds.op(node) == ATTENTION:
            args, kwargs = _attending(args, kwargs, span)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _known(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """The value of a node that depends on no token; raises GraphError for another."""
    if node not in values:
        raise GraphError(f"A size is taken from {node.name}, which depends on tokens.", "Run whole texts.")
    return values[node]


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _attending(args: Any, kwargs: Any, span: _Span) -> tuple[Any, Any]:
    """Arguments of a causal attention of new tokens: torch's `is_causal` aligns the first query with the first key."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.get("is_causal") and span.start:
        rows = torch.arange(span.start, span.stop)[:, None]
        given |= {"is_causal": False, "attn_mask": rows >= torch.arange(span.stop)[None]}
    return (), given


class _Kinds:
    """What depends on tokens in a built graph. Raises GraphError for a graph that cannot run on new tokens alone.

    `of`: node → kind; `numbers`: numbers computed from sizes; `caches`: nodes whose values are kept; `ids`: the input
    of tokens.
    """

    def __init__(self, graph: Graph, nodes: list[fx.Node]) -> None:
        self.graph = graph
        self.ids = _ids(graph)
        self.sequence = next(n for n in graph.placeholders if n.target == self.ids).ports["data_out"].shape[1]
        self.of: dict[fx.Node, Kind] = {}
        self.numbers: set[fx.Node] = set()
        self.caches: set[fx.Node] = set()
        self._shared = {p for n in nodes for p in n.meta.get(PORT, ())}
        for node in nodes:
            self._add(node)

    def node(self, node: fx.Node) -> Node | None:
        """The graph's node."""
        return self.graph.nodes.get(node.meta.get(NODE, ""))

    def op(self, node: fx.Node) -> str:
        """The name of its operation; empty for a format."""
        found = self.node(node)
        return found.op if found else ""

    def axes(self, node: fx.Node) -> list[int]:
        """The axes along the tokens, from the last (−1); raises GraphError for an axis of another length."""
        while self.node(node) is None and node.args and isinstance(node.args[0], fx.Node):  # a format
            node = node.args[0]
        found = self.node(node)
        shape = found.out.shape if found and found.out else ()
        axes = [i - len(shape) for i, d in enumerate(shape) if d == self.sequence]
        if any(isinstance(d, str) and d != self.sequence and str(self.sequence) in d for d in shape):
            raise GraphError(f"{node.name} has an axis that depends on the number of tokens.", "Run whole texts.")
        return axes[::-1]

    def _add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if node.target == self.ids:
                self.of[node] = "rows"
            return
        if node.op in ("output", "get_attr") or node.target is device_of:
            return
        own = self.node(node)
        if own is not None and own.out is None and own.outputs is None:
            self.numbers.add(node)
            return
        sources: list[Kind] = [self.of[n] for n in node.all_input_nodes if n in self.of]
        of_input = all(n.op == "placeholder" for n in node.all_input_nodes if n in self.of)
        if not sources or (own is not None and own.op in _SHAPED and of_input):  # such as a mask of ones
            return
        self.of[node] = self._kind(node, own, sources)
        if self._is_cache(node, own):
            self.of[node] = "keys"
            self.caches.add(node)

    def _is_cache(self, node: fx.Node, own: Node | None) -> bool:
        """Whether a node's value is what the cache holds: that of a `kv_cache` node, after its format."""
        if own is not None:
            return own.op == OP and (own.id, "data_out") not in self._shared
        return any(self.graph.nodes[i].op == OP and port == "data_out" for i, port in node.meta.get(PORT, ()))

    def _kind(self, node: fx.Node, own: Node | None, sources: list[Kind]) -> Kind:
        if own is not None and own.op == ATTENTION and sources[:3] == ["rows", "keys", "keys"]:
            return "rows"
        if own is not None and own.op in MATMULS and len(sources) == 2:
            pairs: dict[tuple[Kind, Kind], Kind] = {("rows", "keys"): "scores", ("scores", "keys"): "rows"}
            if (sources[0], sources[1]) in pairs:
                return pairs[sources[0], sources[1]]
            raise _Mixing(own.id)
        if len(set(sources)) != 1:
            raise _Mixing(own.id if own is not None else node.name)
        return sources[0]


class _Mixing(GraphError):
    """An operation other than an attention computes with several tokens."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} computes with several tokens, and it is no attention.", "Run whole texts.")


def _ids(graph: Graph) -> str:
    """The name of the input of token ids; raises GraphError."""
    inputs = [n for n in graph.placeholders if n.out is not None and len(n.out.shape) == 2]
    found = [n.target for n in inputs if n.out is not None and n.out.dtype.startswith("int") and "mask" not in n.target]
    if len(found) != 1 or not isinstance(inputs[0].ports["data_out"].shape[1], str):
        raise GraphError("The model has no single input of tokens of any length.", "Run whole texts.")
    return found[0]
