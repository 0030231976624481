"""Shapes of a changed torch.fx graph: run without values at several sizes, then written as expressions again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Dim, TensorMeta
from espalier.model.symbols import evaluate

Values = dict[fx.Node, Any]


class Probes:
    """The values of all nodes (tensors without data) at the example's sizes and, where it runs, at others."""

    def __init__(self, model: fx.GraphModule, graph: Graph) -> None:
        first, *others = _assignments(graph.symbols)
        self.assignments = [first]
        self.values = [_run(model, graph, first)]
        for sizes in others:
            try:
                found = _run(model, graph, sizes)
            except PassError:  # beyond what the model can take
                continue
            self.assignments.append(sizes)
            self.values.append(found)
        dims = {d for n in graph for m in n.ports.values() for d in m.shape if isinstance(d, str)}
        self._words = sorted(dims | set(graph.symbols), key=lambda d: (len(d), d))

    def tensor(self, node: fx.Node) -> Tensor | None:
        """The value at the example's sizes, if it is a tensor."""
        value = self.values[0].get(node)
        return value if isinstance(value, Tensor) else None

    def sizes(self, node: fx.Node, axis: int) -> tuple[int, ...]:
        """One size of a node's tensor at each of the assignments."""
        return tuple(int(v[node].shape[axis]) for v in self.values)

    def agrees(self, node: fx.Node, meta: TensorMeta | None) -> bool:
        """Whether what is written down of a tensor still holds."""
        for sizes, values in zip(self.assignments, self.values, strict=True):
            if node not in values:
                continue
            value = values[node]
            if isinstance(value, Tensor) != (meta is not None):
                return False
            if isinstance(value, Tensor) and meta and meta.sizes(sizes) != tuple(value.shape):
                return False
        return True

    def meta(self, node: fx.Node) -> TensorMeta | None:
        """Shape and dtype of a node's tensor over the graph's symbols."""
        value = self.tensor(node)
        if value is None:
            return None
        shape = tuple(self.express(self.sizes(node, i)) for i in range(value.dim()))
        return TensorMeta(shape, str(value.dtype).removeprefix("torch."))

    def express(self, sizes: Sequence[int]) -> Dim:
        """The size that takes these values at the assignments: a number, or an expression over the symbols."""
        if len(set(sizes)) == 1:
            return sizes[0]
        for word in self._words:
            values = [evaluate(word, a) for a in self.assignments]
            if values == list(sizes):
                return word
            factor = sizes[0] // values[0] if values[0] else 0
            if factor > 1 and [factor * v for v in values] == list(sizes):
                return f"{factor}*({word})" if not word.isidentifier() else f"{factor}*{word}"
        return sizes[0]


def _assignments(symbols: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The example's sizes, then others; sizes that come from one name ("batch", "batch_mask") stay together."""
    yield dict(symbols)
    groups = {s: s.split("_")[0] if s.split("_")[0] in ("batch", "seq") else s for s in symbols}
    for step in (3, 5):
        steps = {g: step + i for i, g in enumerate(dict.fromkeys(groups.values()))}
        yield {s: v + steps[groups[s]] for s, v in symbols.items()}


def _run(model: fx.GraphModule, graph: Graph, sizes: dict[str, int]) -> Values:
    runner = _Runner(model)
    ports = {n.target: n.ports.get("data_out") for n in graph.placeholders}
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [_input(ports.get(str(n.target)), sizes) for n in model.graph.nodes if n.op == "placeholder"]
        try:
            runner.run(*inputs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            pass  # sizes that only the data decide: what comes after keeps its shapes
        # A changed graph may fail in any way that torch's operators can.
        except Exception as error:
            at = runner.at.name if runner.at else "the graph"
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise PassError(f"{at} cannot run on its inputs: {text[0][:200]}", "Correct the pass.") from error
    return runner.values


def _input(meta: TensorMeta | None, sizes: dict[str, int]) -> Tensor | None:
    return torch.zeros(meta.sizes(sizes), dtype=getattr(torch, meta.dtype)) if meta else None


class _Runner(fx.Interpreter):
    """Keeps every value, and the node that it has come to."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model, garbage_collect_values=False)
        self.values: Values = {}
        self.at: fx.Node | None = None

    def run_node(self, n: fx.Node) -> Any:
        """As the base does."""
        self.at = n
        self.values[n] = super().run_node(n)
        return self.values[n]
