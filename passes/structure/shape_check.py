"""Checks the shapes of a reduced graph by a run on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.errors import EspalierError, GraphError
from espalier.model.graph.graph import Graph, out_port
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.base import Context


class _ShapeStore(WeightStore):
    """Returns uninitialised tensors of the right sizes, so that no weights are read."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(Path())
        self._sizes = {w.key or "": w for w in graph.weights.values()}

    def get(self, key: str) -> Tensor:
        weight = self._sizes[key]
        return Tensor(np.empty(weight.shape, Tensor.carrier(weight.dtype)), weight.dtype)

    def reader(self) -> Callable[[str], Tensor]:
        return self.get


def disagreement(graph: Graph, context: Context) -> GraphError | None:
    """The error of a run at the example's sizes, with its node; None if all ports agree.

    A graph without weights, with opaque nodes or with data-dependent control flow is not run.
    """
    if any(w.key is None for w in graph.weights.values()) or any(n.call == "opaque" for n in graph):
        return None
    import torch
    from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependent
    from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

    from espalier.model.torch.build import NODE, build

    class Sizes(torch.fx.Interpreter):
        """Runs a module and compares the shapes of results with the graph's."""

        fault: GraphError | None = None

        def run_node(self, n: torch.fx.Node) -> Any:
            try:
                result = super().run_node(n)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                name = n.meta.get(NODE)
                raise GraphError(f"{name or n.name} does not run after the removal: {str(error).splitlines()[0]}",
                                 "Do not prune its axes.", name) from error  # fmt: skip
            self._compare(n.meta.get(NODE), result)
            return result

        def _compare(self, name: str | None, result: Any) -> None:
            results = result if isinstance(result, list | tuple) else [result]
            for number, value in enumerate(results if name else ()):
                meta = graph.nodes[name or ""].ports.get(out_port(number))
                if meta is not None and isinstance(value, torch.Tensor):
                    want = meta.sizes(graph.symbols)
                    if tuple(value.shape) != want:
                        text = f"{name} has the shape {list(value.shape)} after the removal, not {list(want)}."
                        raise GraphError(text, "Do not prune its axes.", name)

    plain = graph.replace(*(replace(n, precision={}, sparsity={}) for n in graph))
    module = build(plain, _ShapeStore(graph), context.callables)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            Sizes(module).run(*(_empty(n.ports.get("data_out"), graph) for n in graph.placeholders))
    except (DataDependent, DynamicOutputShapeException):
        return None
    except EspalierError as error:
        return error if isinstance(error, GraphError) else None
    return None


def _empty(meta: Any, graph: Graph) -> Any:
    import torch

    return None if meta is None else torch.zeros(meta.sizes(graph.symbols), dtype=getattr(torch, meta.dtype))
