"""Decomposes attention into its operations: two products, a softmax, a mask."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node, Ref, map_refs
from espalier.model.graph.meta import Dim, TensorMeta
from espalier.model.graph.node import Arg, TorchConst
from espalier.model.graph.operands import input_ports
from espalier.model.graph.ops import op_of

_ORDER = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


_REST = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}


def decomposed(graph: Graph, ids: Collection[str]) -> tuple[Graph, dict[str, tuple[str, ...]]]:
    """(the graph with the attentions `ids` decomposed, attention → ids of its nodes; the last is its result)."""
    nodes: dict[str, Node] = {}
    results: dict[str, Ref] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for node in graph:
        node = map_refs(node, lambda r: results.get(r.node, r)) if results else node
        if node.id not in ids:
            nodes[node.id] = node
            continue
        attention = _Attention(node, nodes, graph)
        results[node.id] = attention.write()
        parts[node.id] = tuple(attention.ids)
    return replace(graph, nodes=nodes), parts


class _Attention:
    """Appends the nodes of one attention to `nodes`."""

    def __init__(self, node: Node, nodes: dict[str, Node], graph: Graph) -> None:
        self.node, self.nodes, self.graph = node, nodes, graph
        self.ids: list[str] = []
        self.arguments = {**_REST, **dict(zip(_ORDER, node.args, strict=False)), **node.kwargs}
        self.query, self.key, self.value = (node.ports[p] for p in ("data_in", "weight", "weight_1"))

    def write(self) -> Ref:
        shape = (*self.query.shape[:-1], self.key.shape[-2])
        key, value = self._heads("key", self.key), self._heads("value", self.value)
        transposed = (*self._meta(key).shape[:-2], self.key.shape[-1], self.key.shape[-2])
        keys = self._put("keys", "aten.transpose.int", (key, -2, -1), transposed)
        x = self._put("scores", "aten.matmul.default", (self.arguments["query"], keys), shape)
        scale = self._scale()
        x = x if scale == 1.0 else self._put("scaled", "aten.mul.Tensor", (x, scale), shape)
        x = self._with_dropout(
            self._put("probabilities", "aten._safe_softmax.default", (self._masked(x, shape), -1), shape)
        )
        assert self.node.out is not None
        return self._put("context", "aten.matmul.default", (x, value), self.node.out.shape)

    def _meta(self, ref: Ref) -> TensorMeta:
        return self.nodes[ref.node].ports["data_out" if not ref.output else f"data_out_{ref.output}"]

    def _heads(self, name: str, meta: TensorMeta) -> Ref:
        """Keys or values repeated to the number of query heads (grouped-query attention)."""
        ref = self.arguments[name]
        assert isinstance(ref, Ref)
        heads, key_heads = self.query.shape[-3] if len(self.query.shape) > 2 else 1, meta.shape[-3:-2]
        if not self.arguments["enable_gqa"] or (heads,) == key_heads:
            return ref
        if not isinstance(heads, int) or not key_heads or not isinstance(key_heads[0], int):
            raise PassError(f"{self.node.id} has a dynamic number of heads.", "Leave it in float.",
                            self.node.id)  # fmt: skip
        shape = (*meta.shape[:-3], heads, *meta.shape[-2:])
        return self._put(f"{name}_heads", "aten.repeat_interleave.self_int", (ref, heads // key_heads[0], -3), shape)

    def _scale(self) -> float:
        scale, size = self.arguments["scale"], self.query.shape[-1]
        if isinstance(scale, int | float):
            return float(scale)
        if scale is not None or not isinstance(size, int):
            raise PassError(f"{self.node.id} has a dynamic scale.", "Leave it in float.", self.node.id)
        return size**-0.5

    def _masked(self, x: Ref, shape: tuple[Dim, ...]) -> Ref:
        mask, infinite = self.arguments["attn_mask"], float("-inf")
        if self.arguments["is_causal"]:
            rows = self._put("queries", "aten.sym_size.int", (self.arguments["query"], -2), None)
            columns = self._put("columns", "aten.sym_size.int", (self.arguments["key"], -2), None)
            flat, true = shape[-2:], dict[str, Arg](dtype=TorchConst("dtype", "bool"))
            ones = self._put("ones", "aten.new_ones.default", (x, (rows, columns)), flat, "bool", true)
            mask = self._put("causal", "aten.tril.default", (ones,), flat, "bool")
        if not isinstance(mask, Ref):
            return x
        if self._meta(mask).dtype != "bool":
            return self._put("masked", "aten.add.Tensor", (x, mask), shape)
        return self._put("masked", "aten.where.ScalarOther", (mask, x, infinite), shape)

    def _with_dropout(self, x: Ref) -> Ref:
        """Dropout of the probabilities, if evaluation or training has one."""
        evaluation, training = self.arguments["dropout_p"], self.node.attrs.get("dropout_p")
        rate = training if training is not None else evaluation
        if not rate and not evaluation:
            return x
        shape = self._meta(x).shape
        attrs: dict[str, Arg] = {} if training is None else {"p": training, "train": bool(training)}
        return self._put("dropout", "aten.dropout.default", (x, evaluation, bool(evaluation)), shape, attrs=attrs)

    def _put(self, suffix: str, target: str, args: tuple[Arg, ...], shape: tuple[Dim, ...] | None,
             dtype: str | None = None, kwargs: dict[str, Arg] | None = None,
             attrs: dict[str, Arg] | None = None) -> Ref:  # fmt: skip
        """Append a node; without `shape` its result is a number."""
        name, op = f"{self.node.id}_{suffix}", op_of(target)
        while name in self.nodes or name in self.graph.nodes:
            name += "_"
        ports = input_ports(op, args, kwargs or {}, self.nodes)
        if shape is not None:
            ports["data_out"] = TensorMeta(shape, dtype or self.query.dtype)
        self.nodes[name] = Node(name, op, "call_function", target, args, kwargs or {}, ports, {}, attrs or {}, None,
                                self.node.module_path, self.node.source)  # fmt: skip
        self.ids.append(name)
        return Ref(name)
