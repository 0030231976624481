"""Does a graph give the shapes that its ports tell? Each call runs on tensors without values; results are compared.

What comes after a difference runs on what its ports tell, so that each difference is found where it begins. Calls
that are alike, as in repeated blocks, run once.
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
    """What a node does, as a clause: `gives 2 × 16 × 64, not 2 × 64`."""

    node: str
    clause: str


class _Unknown(Exception):
    """A result that only values decide, and that is no tensor."""


def differences(graph: Graph) -> list[Difference]:
    """Where shapes at the example's sizes are not those of the ports: functions and modules are called, not opaque
    nodes; choices change no shape and are left out. Ends early where an argument is a number that only values decide.
    """
    run = _Run(graph)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            for node in graph:
                run.step(node)
        except _Unknown:
            pass
    return run.found


class _Run:
    """The results of all nodes so far: a TensorMeta with plain sizes, a number, or a tuple of these."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found: list[Difference] = []
        self._values: dict[str, Any] = {}
        self._known: dict[object, Any] = {}

    def step(self, node: Node) -> None:
        """Call a node, compare what it gives, and keep it."""
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
            self.found.append(Difference(node.id, f"does not run: {str(error).strip().splitlines()[0][:200]}"))
            return declared
        for found, wanted in zip(_each(result), _each(declared), strict=False):
            if isinstance(found, TensorMeta) and isinstance(wanted, TensorMeta) and found.shape != wanted.shape:
                self.found.append(Difference(node.id, f"gives {_told(found)}, not {_told(wanted)}"))
                return declared
        return result

    def _declared(self, node: Node) -> Any:
        """The results that the ports tell; None where a single one is no tensor."""
        metas = [node.ports.get(out_port(i)) for i in range(node.outputs or 1)]
        plain = tuple(m and TensorMeta(m.sizes(self.graph.symbols), m.dtype) for m in metas)
        return plain[0] if node.outputs is None else plain

    def _result(self, node: Node) -> Any:
        args = self._frozen(node.args)
        kwargs = tuple((k, self._frozen(v)) for k, v in node.kwargs.items())
        weights = tuple((p, self._weight(n)) for p, n in node.weights.items())
        attrs = str(sorted(node.attrs.items())) if node.call == "call_module" else ""
        key = (node.call, attrs or node.target, args, kwargs, weights)
        if key not in self._known:
            call: Callable[..., Any] = self._leaf(node) if attrs else function_of(node.target)
            self._known[key] = _frozen_result(call(*_live(args), **{k: _live(v) for k, v in kwargs}))
        return self._known[key]

    def _weight(self, name: str) -> TensorMeta:
        weight = self.graph.weights[name]
        return TensorMeta(weight.shape, weight.dtype)

    def _leaf(self, node: Node) -> nn.Module:
        """The node's module in evaluation, its weights without values."""
        leaf = make(node.attrs)
        for port, name in node.weights.items():
            value, parameter = _live(self._weight(name)), isinstance(getattr(leaf, port, None), nn.Parameter)
            setattr(leaf, port, nn.Parameter(value, False) if parameter else value)
        return leaf.eval()

    def _frozen(self, arg: Any) -> Any:
        """An argument with results in place of references."""
        match arg:
            case Ref(name, output):
                whole = self._values[name]
                return whole[output] if self.graph.nodes[name].outputs is not None else whole
            case tuple():
                return tuple(map(self._frozen, arg))
            case Slice(start, stop, step):
                return Slice(self._frozen(start), self._frozen(stop), self._frozen(step))
            case _:
                return arg


def _live(arg: Any) -> Any:
    """An argument as a function takes it."""
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


def _told(meta: TensorMeta) -> str:
    return " × ".join(map(str, meta.shape)) or "a scalar"
