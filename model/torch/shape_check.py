"""Checks the shapes of a graph's ports by running each call on fake tensors.

After a difference the declared shape is used, so that each difference is reported at its origin. Equal calls, as in
repeated blocks, run once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Slice, TorchConst
from espalier.model.torch.build import torch_constant
from espalier.model.torch.leaves import make
from espalier.model.torch.targets import function_of

UNKNOWN = (  # tensors without values cannot tell
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A node's difference as a clause: `gives 2 × 16 × 64, not 2 × 64`."""

    node: str
    clause: str


class _Unknown(Exception):
    """A result that is no tensor and depends on values."""


def differences(graph: Graph) -> list[Difference]:
    """Nodes whose results at the example's sizes differ in shape from their ports. Opaque nodes are not called; formats
    and masks are ignored. Ends early at an argument that is a number and depends on values.
    """
    run = _Run(graph)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            for node in graph:
                run.step(node)
        except _Unknown:
            pass
    return run.differences


class _Run:
    """The results of all nodes so far: a TensorMeta with plain sizes, a number, or a tuple of these."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.differences: list[Difference] = []
        self._values: dict[str, Any] = {}
        self._cache: dict[object, Any] = {}

    def step(self, node: Node) -> None:
        """Call a node, compare its result with its ports, and store it."""
        if node.call == "output":
            return
        declared = self._declared(node)
        value = self._compared(node, declared) if node.call in ("call_function", "call_module") else declared
        if value is None:
            raise _Unknown
        self._values[node.id] = value

    def _compared(self, node: Node, declared: Any) -> Any:
        try:
            result = self._result(node)
        except UNKNOWN:
            return declared
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            self.differences.append(Difference(node.id, f"does not run: {str(error).strip().splitlines()[0][:200]}"))
            return declared
        for actual, expected in zip(_each(result), _each(declared), strict=False):
            if isinstance(actual, TensorMeta) and isinstance(expected, TensorMeta) and actual.shape != expected.shape:
                self.differences.append(Difference(node.id, f"gives {_text(actual)}, not {_text(expected)}"))
                return declared
        return result

    def _declared(self, node: Node) -> Any:
        """The results as declared by the ports; None for a single result that is no tensor."""
        metas = [node.ports.get(out_port(i)) for i in range(node.outputs or 1)]
        plain = tuple(m and TensorMeta(m.sizes(self.graph.symbols), m.dtype) for m in metas)
        return plain[0] if node.outputs is None else plain

    def _result(self, node: Node) -> Any:
        args = self._frozen(node.args)
        kwargs = tuple((k, self._frozen(v)) for k, v in node.kwargs.items())
        weights = tuple((p, self._weight(n)) for p, n in node.weights.items())
        attrs = str(sorted(node.attrs.items())) if node.call == "call_module" else ""
        key = (node.call, attrs or node.target, args, kwargs, weights)
        if key not in self._cache:
            call: Callable[..., Any] = self._leaf(node) if attrs else function_of(node.target)
            self._cache[key] = _frozen_result(call(*_live(args), **{k: _live(v) for k, v in kwargs}))
        return self._cache[key]

    def _weight(self, name: str) -> TensorMeta:
        weight = self.graph.weights[name]
        return TensorMeta(weight.shape, weight.dtype)

    def _leaf(self, node: Node) -> nn.Module:
        """The node's module in eval mode, with fake weights."""
        leaf = make(node.attrs)
        for port, name in node.weights.items():
            value, parameter = _live(self._weight(name)), isinstance(getattr(leaf, port, None), nn.Parameter)
            setattr(leaf, port, nn.Parameter(value, False) if parameter else value)
        return leaf.eval()

    def _frozen(self, arg: Any) -> Any:
        """An argument with results in place of references."""
        match arg:
            case Ref(name, output):
                value = self._values[name]
                return value[output] if self.graph.nodes[name].outputs is not None else value
            case tuple():
                return tuple(map(self._frozen, arg))
            case Slice(start, stop, step):
                return Slice(self._frozen(start), self._frozen(stop), self._frozen(step))
            case _:
                return arg


def _live(arg: Any) -> Any:
    """An argument as a value for a call."""
    match arg:
        case TensorMeta(shape, dtype):
            return torch.empty(shape, dtype=getattr(torch, dtype))  # type: ignore[arg-type]
        case tuple():
            return [_live(a) for a in arg]
        case Slice(start, stop, step):
            return slice(_live(start), _live(stop), _live(step))
        case TorchConst():
            return torch_constant(arg)
        case _:
            return arg


def _frozen_result(value: Any) -> Any:
    if isinstance(value, Tensor):
        return TensorMeta(tuple(value.shape), str(value.dtype).removeprefix("torch."))
    return tuple(map(_frozen_result, value)) if isinstance(value, list | tuple) else value


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _text(meta: TensorMeta) -> str:
    return " × ".join(map(str, meta.shape)) or "a scalar"
