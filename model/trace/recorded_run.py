"""Fallback for models that torch.export refuses: a graph recorded from one run, for display and compression.

The graph's connections cannot be edited; it runs as the original module with its leaves replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from espalier.model.errors import TraceError
from espalier.model.graph.graph import Graph, Node, Ref, named_weights, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Arg, in_port
from espalier.model.graph.ops import op_of
from espalier.model.store.weights import WeightStore
from espalier.model.torch.leaves import attributes, op_of_module
from espalier.model.torch.tensors import Tensors
from espalier.model.trace.outputs import RESULT

MODEL = "model"
_SILENT = ("__get__", "__set__", "size", "dim", "is_floating_point", "device", "dtype", "stride", "numel", "__bool__")


def record(model: nn.Module, example: Mapping[str, Any], store: WeightStore) -> Graph:
    """A graph of leaf modules and functions from one run of `model`; raises TraceError if the run fails."""
    recorder = _Recorder(model, store)
    try:
        with torch.no_grad(), recorder.watching(), recorder:
            result = model(**example)
    # The user's own model code may raise anything.
    except Exception as error:
        text = f"The model neither exports nor runs: {type(error).__name__}: {str(error)[:300]}"
        raise TraceError(text, "Correct the model or its example inputs.") from error
    return recorder.graph(result)


class _Recorder(TorchFunctionMode):
    def __init__(self, model: nn.Module, store: WeightStore) -> None:
        super().__init__()
        self._model = model
        self._paths = {m: n for n, m in model.named_modules()}
        self._tensors = Tensors(model, store)
        self._own = {id(p) for p in (*model.parameters(), *model.buffers())}
        self._refs: dict[int, Ref] = {}
        self._alive: list[Tensor] = []
        self._nodes: dict[str, Node] = {}
        self._taken: Counter[str] = Counter((RESULT,))
        self._stack: list[str] = []
        self._inside = 0

    def watching(self) -> Any:
        """Hooks on all modules, removed at the end of the context."""
        from contextlib import ExitStack

        stack = ExitStack()
        stack.callback(self._model.register_forward_pre_hook(self._inputs, with_kwargs=True).remove)
        for module in self._paths:
            leaf = op_of_module(module) is not None and not list(module.children())
            before, after = (self._leaf_in, self._leaf_out) if leaf else (self._enter, self._leave)
            stack.callback(module.register_forward_pre_hook(before).remove)
            stack.callback(module.register_forward_hook(after).remove)
        return stack

    # -- hooks

    def _inputs(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                self._put(Node(name, "placeholder", "placeholder", name), value)

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._stack.append(self._paths[module])

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._stack.pop()

    def _leaf_in(self, module: nn.Module, args: Any) -> None:
        self._inside += 1

    def _leaf_out(self, module: nn.Module, args: Any, output: Any) -> None:
        path = self._paths[module]
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        weights = {n: self._tensors.name(v, f"{path}.{n}") for n, v in own}
        self._inside -= 1
        ports = {p: _meta(v) for p, v in own if p in ("weight", "bias")}
        node = Node(
            self._unique(path.replace(".", "_")), op_of_module(module) or "opaque", "call_module", path,
            tuple(self._args(args)), {}, ports, weights, attributes(module), module_path=path,
        )  # fmt: skip
        self._put(node, output)

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "function")
        if not self._inside and name not in _SILENT and any(isinstance(t, Tensor) for t in pytree.tree_leaves(result)):
            op = op_of(f"aten.{name.strip('_')}.default")
            inputs = tuple(self._args((*args, *(kwargs or {}).values())))
            path = self._stack[-1] if self._stack else ""
            self._put(
                Node(self._unique(name.strip("_")), op, "opaque", f"recorded.{name}", inputs, module_path=path), result
            )
        return result

    # -- nodes

    def _unique(self, stem: str) -> str:
        self._taken[stem] += 1
        return stem if self._taken[stem] == 1 and stem not in self._nodes else f"{stem}_{self._taken[stem] - 1}"

    def _args(self, args: Any) -> Iterator[Arg]:
        for value in pytree.tree_leaves(args):
            if isinstance(value, Tensor):
                ref = self._refs.get(id(value)) or self._weight(value)
                if ref is not None:
                    yield ref

    def _weight(self, value: Tensor) -> Ref | None:
        if id(value) not in self._own:
            return None
        self._inside += 1
        name = self._tensors.name(value, "constant")
        self._inside -= 1
        node = Node(self._unique(name.replace(".", "_")), "get_attr", "get_attr", name, weights={"value": name},
                    module_path=name.rpartition(".")[0])  # fmt: skip
        self._put(node, value)
        return self._refs[id(value)]

    def _put(self, node: Node, result: Any) -> None:
        from dataclasses import replace

        values = [v for v in pytree.tree_leaves(result) if isinstance(v, Tensor)]
        ports = dict(node.ports)
        for i, ref in enumerate(node.inputs):
            ports[in_port(i)] = self._nodes[ref.node].ports[out_port(ref.output)]
        for i, value in enumerate(values):
            ports[out_port(i)] = _meta(value)
            self._refs[id(value)] = Ref(node.id, i)
            self._alive.append(value)  # keeps its id() unique while recording
        outputs = len(values) if len(values) > 1 else None
        self._nodes[node.id] = replace(node, ports=ports, outputs=outputs)

    def graph(self, result: Any) -> Graph:
        """The recorded graph."""
        plain = dict(result.items()) if isinstance(result, Mapping) else result
        values = [v for v in pytree.tree_leaves(plain) if isinstance(v, Tensor)]
        refs = [self._refs.get(id(v)) for v in values]
        args = tuple(r for r in refs if r is not None)
        self._nodes[RESULT] = Node(RESULT, "output", "output", "output", args)
        names = _names(plain, len(args))
        return Graph(self._nodes, named_weights(self._nodes.values(), self._tensors.found), names,
                     _structure(plain), {}, "module")  # fmt: skip


def _meta(value: Tensor) -> TensorMeta:
    return TensorMeta(tuple(int(d) for d in value.shape), str(value.dtype).removeprefix("torch."))


def _names(result: Any, count: int) -> tuple[str, ...]:
    if isinstance(result, dict) and len(result) == count:
        return tuple(str(k) for k in result)
    return tuple(f"output_{i}" for i in range(count)) if count != 1 else ("output",)


def _structure(result: Any) -> Any:
    return "tensor" if isinstance(result, Tensor) else "dict" if isinstance(result, dict) else "tuple"
