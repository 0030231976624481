"""Graph + weights → a torch.fx.GraphModule that runs and trains; and trained tensors back under new keys."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from model.errors import GraphError
from model.graph import Arg, Graph, Node, Ref, Slice, TorchConst
from model.layers import Compressed, Effective, unpack_mask
from model.leaves import make
from model.ops import arg_port
from model.trace.targets import function_of
from model.trace.tensors import to_numpy, to_torch
from model.weights import WeightStore

Callables = Mapping[str, Callable[..., Any]]


def build(graph: Graph, store: WeightStore, callables: Callables | None = None) -> fx.GraphModule:
    """A GraphModule in eval mode over the graph's weights (shared memory with the store, copy on write).

    Inputs are keyword arguments named as the placeholders; results leave as the original's did (tensor,
    tuple, or a dict by name). Raises GraphError for a graph without weights, ProjectError for missing tensors.
    """
    if graph.runs == "module":
        return _recorded(graph, store, callables or {})
    return _Builder(graph, store, callables or {}).module()


def _recorded(graph: Graph, store: WeightStore, callables: Callables) -> Any:
    """The original module with the leaves that have choices swapped."""
    original: Any = callables.get("model")
    if original is None:
        raise GraphError("This model runs only with its own code, which is not at hand.", "Open its source again.")
    builder = _Builder(graph, store, callables)
    module: Any = copy.deepcopy(original).eval()
    for node in graph:
        if node.call == "call_module" and (node.precision or node.sparsity):
            module.set_submodule(node.target, builder.whole_leaf(node))
    live = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    module.espalier_weights = {n: v for n, v in live.items() if n in graph.weights} | builder.tensors_used
    return module


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Weight name → the live tensor of a built module."""
    found: dict[str, Tensor] = module.espalier_weights  # type: ignore[assignment]
    return found


def read_back(module: nn.Module, graph: Graph, store: WeightStore) -> Graph:
    """The graph with the module's present values; only tensors that changed get new keys."""
    fresh = {}
    for name, value in parameters_of(module).items():
        old = graph.weights.get(name)
        if old is not None:
            stored = to_numpy(value)
            key = stored.key()
            if key != old.key:
                store.hold(type(stored)(stored.array.copy(), stored.dtype))
                fresh[name] = replace(old, key=key)
    return graph.with_weights(fresh)


class _Builder:
    def __init__(self, graph: Graph, store: WeightStore, callables: Callables) -> None:
        self.graph, self.store, self.callables = graph, store, callables
        self.root = nn.Module()
        self.fx = fx.Graph()
        self.made: dict[str, fx.Node] = {}
        self.items: dict[Ref, fx.Node] = {}
        self.tensors = {name: self._load(name) for name in graph.weights}
        self.leaves: dict[tuple[Any, ...], str] = {}
        self.tensors_used: dict[str, Tensor] = {}

    def _load(self, name: str) -> Tensor:
        weight = self.graph.weights[name]
        if weight.key is None:
            raise GraphError("The model was opened without weights, so it cannot run.", "Open it with weights.")
        value = to_torch(self.store.get(weight.key))
        if weight.role != "parameter":
            return value
        return nn.Parameter(value, requires_grad=weight.trainable)

    def module(self) -> fx.GraphModule:
        for node in self.graph:
            if node.call == "call_module":
                self._attach_leaf(node)
        for node in self.graph:
            self.made[node.id] = self._emit(node)
        module = fx.GraphModule(self.root, self.fx)
        module.espalier_weights = self.tensors  # type: ignore[assignment]
        return module.eval()

    # -- modules and tensors under their own paths

    def _attach(self, path: str, value: nn.Module | Tensor) -> None:
        *parents, name = path.split(".")
        home = self.root
        for part in parents:
            if not hasattr(home, part):
                home.add_module(part, nn.Module())
            home = getattr(home, part)
        if hasattr(home, name):
            return
        if isinstance(value, nn.Module):
            home.add_module(name, value)
        elif isinstance(value, nn.Parameter):
            home.register_parameter(name, value)
        else:
            home.register_buffer(name, value)

    def _attach_leaf(self, node: Node) -> None:
        chosen = tuple(sorted((p, str(c.format)) for p, c in node.precision.items()))
        masks = tuple(sorted((p, str(s.mask)) for p, s in node.sparsity.items()))
        key = (node.target, tuple(p for p in chosen if p[0] in ("weight", "bias")), masks)
        if key not in self.leaves:
            first = not any(k[0] == node.target for k in self.leaves)
            self.leaves[key] = node.target if first else f"{node.target}_{len(self.leaves)}"
            self._attach(self.leaves[key], self._leaf(node))
        self.made_path = self.leaves

    def whole_leaf(self, node: Node) -> nn.Module:
        """A leaf with all its choices inside, activations too, for a model that cannot be re-wired."""
        self.tensors_used |= {name: self.tensors[name] for name in node.weights.values()}
        ends = {p: self._effective(node, p) for p in ("data_in", "data_out") if p in node.precision}
        parts = (ends.get("data_in"), self._leaf(node), ends.get("data_out"))
        return nn.Sequential(*(p for p in parts if p is not None))

    def _leaf(self, node: Node) -> nn.Module:
        inner = make(node.attrs)
        for port, name in node.weights.items():
            if port in inner._parameters:
                inner._parameters[port] = self._parameter(name)
            else:
                inner._buffers[port] = self.tensors[name]
        effective = {p: self._effective(node, p) for p in node.weights if p in node.precision or p in node.sparsity}
        return Compressed(inner, node.op, effective) if effective else inner

    def _parameter(self, name: str) -> nn.Parameter:
        value = self.tensors[name]
        return value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)

    def _effective(self, node: Node, port: str) -> Effective:
        chosen, sparsity = node.precision.get(port), node.sparsity.get(port)
        mask = None
        if sparsity and sparsity.mask is not None:
            mask = unpack_mask(to_torch(self.store.get(sparsity.mask)), node.ports[port].sizes(self.graph.symbols))
        return Effective(chosen.format if chosen else None, mask)

    # -- nodes

    def _emit(self, node: Node) -> fx.Node:
        match node.call:
            case "placeholder":
                return self.fx.placeholder(node.target, default_value=None)
            case "get_attr":
                self._attach(node.target, self.tensors[node.weights["value"]])
                return self.fx.get_attr(node.target)
            case "output":
                return self.fx.output(self._result(node))
            case "call_module":
                made = self._call_module(node)
            case _:
                made = self._call_function(node)
        made.meta["espalier"] = node.id
        return self._quantised(made, node, "data_out") if "data_out" in node.precision else made

    def _result(self, node: Node) -> Any:
        values = [self._arg(a) for a in node.args]
        if self.graph.structure == "tensor":
            return values[0]
        return (
            dict(zip(self.graph.output_names, values, strict=True)) if self.graph.structure == "dict" else tuple(values)
        )

    def _call_module(self, node: Node) -> fx.Node:
        chosen = tuple(sorted((p, str(c.format)) for p, c in node.precision.items() if p in ("weight", "bias")))
        masks = tuple(sorted((p, str(s.mask)) for p, s in node.sparsity.items()))
        source = self._arg(node.args[0])
        if "data_in" in node.precision:
            source = self._quantised(source, node, "data_in")
        return self.fx.create_node("call_module", self.leaves[node.target, chosen, masks], (source,), {}, node.id)

    def _call_function(self, node: Node) -> fx.Node:
        target = self.callables.get(node.target) if node.call == "opaque" else function_of(node.target)
        if target is None:
            raise GraphError(
                f"{node.id} is opaque, and its function is not at hand.",
                "Open the model's source again.",
                node.id,
            )
        args = tuple(self._function_arg(node, i, a) for i, a in enumerate(node.args))
        kwargs = {k: self._arg(a) for k, a in node.kwargs.items()}
        return self.fx.create_node("call_function", target, args, kwargs, node.id)

    def _function_arg(self, node: Node, position: int, arg: Arg) -> Any:
        value = self._arg(arg)
        port = arg_port(node.op, position)
        if port is None or (port not in node.precision and port not in node.sparsity):
            return value
        return self._quantised(value, node, port)

    def _quantised(self, value: Any, node: Node, port: str) -> fx.Node:
        path = f"effective.{node.id}_{port}"
        self._attach(path, self._effective(node, port))
        return self.fx.call_module(path, (value,))

    def _arg(self, arg: Arg) -> Any:
        match arg:
            case Ref():
                return self._ref(arg)
            case tuple():
                return [self._arg(a) for a in arg]
            case Slice(start, stop, step):
                return slice(self._arg(start), self._arg(stop), self._arg(step))
            case TorchConst("device", name):
                return torch.device(name)
            case TorchConst(_, name):
                return getattr(torch, name)
            case _:
                return arg

    def _ref(self, ref: Ref) -> fx.Node:
        if self.graph.nodes[ref.node].outputs is None:
            return self.made[ref.node]
        if ref not in self.items:
            getitem = function_of("_operator.getitem")
            self.items[ref] = self.fx.call_function(getitem, (self.made[ref.node], ref.output))
        return self.items[ref]
