"""Infers shapes and dtypes after an edit, by calling the edited and following nodes on fake tensors.

Sizes such as `batch * seq` stay symbolic by torch's SymInt arithmetic, so that an edited model still accepts other
sizes than the example's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import Dim, TensorMeta
from espalier.model.graph.node import Slice, TorchConst
from espalier.model.graph.operands import refreshed
from espalier.model.symbols import evaluate
from espalier.model.torch.build import torch_constant
from espalier.model.torch.leaves import make
from espalier.model.torch.recurrent import LSTM, lstm_results
from espalier.model.torch.shape_check import UNKNOWN
from espalier.model.torch.targets import function_of


def inferred(graph: Graph, edited: Collection[str]) -> Graph:
    """The graph with inferred ports of the edited nodes and of all nodes whose inputs change.

    Args:
        graph: in topological order; the ports of unedited nodes match their inputs.
        edited: ids of nodes with a new call, arguments or tensors.

    Raises:
        GraphError: a node cannot run on its new inputs, or its result depends on values; names the node.
    """
    run = _Inference(graph)
    altered = set(edited)
    with run.mode, torch.no_grad(), _unlogged():
        for node in graph:
            if node.id in altered or any(r.node in run.changed for r in node.inputs):
                run.infer(node)
    return replace(graph, nodes=run.nodes)


class _Inference:
    """The nodes with their new ports so far, and fake results of those that were asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = dict(graph.nodes)
        self.changed: set[str] = set()
        self._results: dict[str, Any] = {}
        env = ShapeEnv(specialize_zero_one=False, duck_shape=False)
        self.mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
        self._sizes: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._texts: dict[str, str] = {}
        for name, hint in graph.symbols.items():
            source = ConstantSource(f"size_{name}")
            symbol = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC, do_not_specialize_zero_one=True)
            self._sizes[name] = env.create_symintnode(symbol, hint=hint, source=source)
            self._names[symbol] = name
            self._texts[str(symbol)] = name

    def infer(self, node: Node) -> None:
        """Give a node the ports that follow from its inputs."""
        before, fresh = node, refreshed(node, self.nodes)
        if node.call in ("call_module", "call_function"):
            result = self._call(fresh)
            self._results[node.id] = result
            fresh = replace(fresh, ports=self._ports(fresh, result))
        elif node.call == "opaque" and _inputs(fresh) != _inputs(before):
            raise GraphError(f"{node.id} runs its own code, so its result for other sizes is unknown.",
                             "Keep the sizes of its inputs.", node.id)  # fmt: skip
        self.nodes[node.id] = fresh
        if _outputs(fresh) != _outputs(before) or not _outputs(fresh):
            self.changed.add(node.id)

    def _ports(self, node: Node, result: Any) -> dict[str, TensorMeta]:
        values = [result] if node.outputs is None else list(result)
        outs = {out_port(i): self._meta(v) for i, v in enumerate(values) if isinstance(v, Tensor)}
        own = {p: self._weight(n) for p, n in node.weights.items() if p in node.ports or p in ("weight", "bias")}
        taken = {p: m for p, m in node.ports.items() if not p.startswith("data_out")}
        return taken | own | outs

    def _weight(self, name: str) -> TensorMeta:
        weight = self.graph.weights[name]
        return TensorMeta(weight.shape, weight.dtype)

    def _call(self, node: Node) -> Any:
        try:
            args = [self._value(a) for a in node.args]
            kwargs = {k: self._value(v) for k, v in node.kwargs.items()}
            call = self._leaf(node) if node.call == "call_module" else _shape_rule(node.target)
            return call(*args, **kwargs)
        except UNKNOWN as error:
            text = f"The shape of the result of {node.id} depends on values."
            raise GraphError(text, "Edit only nodes after it.", node.id) from error
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason = self._named(str(error).strip().partition("\n")[0][:200])
            hint = "Choose other sizes, or edit the following nodes first."
            raise GraphError(f"{node.id} ({node.op}) cannot run after the edit: {reason}", hint, node.id) from error

    def _named(self, text: str) -> str:
        """A message of torch with the graph's names of symbolic sizes."""
        return re.sub(r"\bs\d+\b", lambda m: self._texts.get(m[0], m[0]), text)

    def _leaf(self, node: Node) -> nn.Module:
        leaf = make(node.attrs)
        for port, name in node.weights.items():
            value, parameter = self._empty(self._weight(name)), isinstance(getattr(leaf, port, None), nn.Parameter)
            setattr(leaf, port, nn.Parameter(value, False) if parameter else value)
        return leaf.eval()

    def _value(self, arg: Any) -> Any:
        match arg:
            case Ref(name, output):
                return self._result(name, output)
            case tuple():
                return [self._value(a) for a in arg]
            case Slice(start, stop, step):
                return slice(self._value(start), self._value(stop), self._value(step))
            case TorchConst():
                return torch_constant(arg)
            case _:
                return arg

    def _result(self, name: str, output: int) -> Any:
        """A result of a node: as inferred, from its port or, for a number, computed."""
        node = self.nodes[name]
        if name not in self._results:
            meta = node.ports.get(out_port(output))
            if meta is not None:
                return self._empty(meta)
            self._results[name] = self._call(node)
        result = self._results[name]
        return result[output] if node.outputs is not None else result

    def _empty(self, meta: TensorMeta) -> Tensor:
        sizes: Any = [d if isinstance(d, int) else evaluate(d, self._sizes) for d in meta.shape]
        return torch.empty(sizes, dtype=getattr(torch, meta.dtype))

    def _meta(self, value: Tensor) -> TensorMeta:
        return TensorMeta(tuple(self._dim(d) for d in value.shape), str(value.dtype).removeprefix("torch."))

    def _dim(self, size: Any) -> Dim:
        """A size as a shape entry; a number if it has no supported expression."""
        if not isinstance(size, torch.SymInt):
            return int(size)
        import sympy

        expression: Any = size.node.expr
        names = {s: sympy.Symbol(self._names.get(s, str(s)), integer=True, positive=True)
                 for s in expression.free_symbols}  # fmt: skip
        text = str(expression.xreplace(names)).replace(" ", "")
        try:
            value = evaluate(text, self.graph.symbols)
        except (ValueError, KeyError, ZeroDivisionError):
            return int(size.node.hint or 1)
        return text if names else value


def _shape_rule(target: str) -> Callable[..., Any]:
    """What gives the results of a function on fake tensors."""
    return lstm_results if target == LSTM else function_of(target)


@contextmanager
def _unlogged() -> Generator[None]:
    """Silence torch's log of failing calls, whose error is raised."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _inputs(node: Node) -> dict[str, TensorMeta]:
    return {p: m for p, m in node.ports.items() if not p.startswith("data_out")}


def _outputs(node: Node) -> dict[str, TensorMeta]:
    return {p: m for p, m in node.ports.items() if p.startswith("data_out")}
