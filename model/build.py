"""Graph + weights → a torch.fx.GraphModule that runs and trains; and trained tensors back under new keys."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from model.errors import GraphError
from model.graph import Arg, Graph, Node, Ref, Slice, TorchConst
from model.layers import Compressed, Effective, unpack_mask
from model.leaves import make
from model.meta import Weight
from model.ops import arg_port
from model.trace.targets import function_of
from model.trace.tensors import to_numpy, to_torch
from model.weights import Tensor as Stored
from model.weights import WeightStore

Callables = Mapping[str, Callable[..., Any]]
_PLACES = "espalier"  # key in a built module's meta: weight name → path of its tensor


def build(graph: Graph, store: WeightStore, callables: Callables | None = None) -> fx.GraphModule:
    """A GraphModule in eval mode over the graph's weights: mapped copy on write, so training leaves the store alone.

    Inputs are keyword arguments named as the placeholders; results leave as the original's did (tensor,
    tuple, or a dict by name). Raises GraphError for a graph without weights, ProjectError for missing tensors.
    """
    builder = _Builder(graph, store, callables or {})
    return builder.recorded() if graph.runs == "module" else builder.module()


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Weight name → the live tensor of a built module, or of a deep copy of one."""
    held: Any = module
    return {name: _at(module, path) for name, path in held.meta[_PLACES].items()}


def _at(module: nn.Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    return getattr(module.get_submodule(parent), name)


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


def _load(weight: Weight, read: Callable[[str], Stored]) -> Tensor:
    if weight.key is None:
        raise GraphError("The model was opened without weights, so it cannot run.", "Open it with weights.")
    value = to_torch(read(weight.key))
    return nn.Parameter(value, requires_grad=weight.trainable) if weight.role == "parameter" else value


def _constant(const: TorchConst) -> Any:
    try:
        found = torch.device(const.name) if const.kind == "device" else getattr(torch, const.name, None)
    except RuntimeError:
        found = None
    if not isinstance(found, getattr(torch, const.kind)):
        raise GraphError(f"torch has no {const.kind} {const.name!r}.", "Open the source again.")
    return found


def _leaf_key(node: Node) -> tuple[Any, ...]:
    """Equal for calls that can share one leaf: the same module with the same choices for its tensors."""
    formats = sorted((p, str(c.format)) for p, c in node.precision.items() if p in ("weight", "bias"))
    return node.target, tuple(formats), tuple(sorted((p, str(s.mask)) for p, s in node.sparsity.items()))


class _Builder:
    def __init__(self, graph: Graph, store: WeightStore, callables: Callables) -> None:
        self.graph, self.store, self.callables = graph, store, callables
        self.root = nn.Module()
        self.fx = fx.Graph()
        self.made: dict[str, fx.Node] = {}
        self.items: dict[Ref, fx.Node] = {}
        read = store.reader()
        self.tensors = {name: _load(weight, read) for name, weight in graph.weights.items()}
        self.leaves: dict[tuple[Any, ...], str] = {}
        self.places: dict[str, str] = {}

    def module(self) -> fx.GraphModule:
        for node in self.graph:
            if node.call == "call_module":
                self._attach_leaf(node)
        for node in self.graph:
            self.made[node.id] = self._emit(node)
        module = fx.GraphModule(self.root, self.fx)
        for name, path in self.places.items():
            if self.graph.weights[name].role == "constant":  # not part of the state, as in the original
                parent, _, attribute = path.rpartition(".")
                module.get_submodule(parent).register_buffer(attribute, self.tensors[name], persistent=False)
        module.meta[_PLACES] = self.places
        return module.eval()

    def recorded(self) -> Any:
        """The original module over the graph's weights, with the leaves that have choices swapped."""
        original: Any = self.callables.get("model")
        if original is None:
            raise GraphError("This model runs only with its own code, which is not at hand.", "Open its source again.")
        module: Any = copy.deepcopy(original).eval()
        self._adopt(module)
        for node in self.graph:
            if node.call == "call_module" and (node.precision or node.sparsity):
                module.set_submodule(node.target, self._whole_leaf(node))
        module.meta = {_PLACES: self.places}
        return module

    def _adopt(self, module: nn.Module) -> None:
        """Put the graph's weights in place of the module's own, ties kept."""
        named = [*module.named_parameters(), *module.named_buffers()]
        names = {id(v): n for n, v in named if n in self.tensors}
        self.places = {n: n for n in names.values()}
        for inner in module.modules():
            own = (inner.named_parameters, inner.named_buffers)
            for key, value in [pair for each in own for pair in each(recurse=False, remove_duplicate=False)]:
                if id(value) in names:
                    setattr(inner, key, self.tensors[names[id(value)]])

    # -- modules and tensors under their own paths

    def _attach(self, path: str, value: nn.Module | Tensor) -> None:
        *parents, name = path.split(".")
        home = self.root
        for part in parents:
            if not hasattr(home, part):
                home.add_module(part, nn.Module())
            home = getattr(home, part)
        if not isinstance(home, nn.Module) or not isinstance(getattr(home, name, value), nn.Module | Tensor):
            raise GraphError(f"{path!r} is no name that a module or tensor can have.", "Open the source again.")
        if hasattr(home, name):
            return
        if isinstance(value, nn.Module):
            home.add_module(name, value)
        elif isinstance(value, nn.Parameter):
            home.register_parameter(name, value)
        else:
            home.register_buffer(name, value)

    def _attach_leaf(self, node: Node) -> None:
        key = _leaf_key(node)
        if key not in self.leaves:
            self.leaves[key] = self._free(node.target)
            self._attach(self.leaves[key], self._leaf(node, self.leaves[key]))

    def _free(self, target: str) -> str:
        """A module path that no other leaf has: calls of one module may have different choices."""
        taken = {n.target for n in self.graph}
        names = itertools.chain([target], (f"{target}_{i}" for i in itertools.count(1)))
        return next(
            n
            for n in names
            if n not in self.leaves.values() and (n == target or not any(f"{t}.".startswith(f"{n}.") for t in taken))
        )

    def _whole_leaf(self, node: Node) -> nn.Module:
        """A leaf with all its choices inside, activations too, for a model that cannot be re-wired."""
        for name in node.weights.values():
            self.places.pop(name, None)
        before, after = ([self._effective(node, p)] if p in node.precision else [] for p in ("data_in", "data_out"))
        return nn.Sequential(*before, self._leaf(node, f"{node.target}.{len(before)}"), *after)

    def _leaf(self, node: Node, path: str) -> nn.Module:
        inner = make(node.attrs)
        effective = {p: self._effective(node, p) for p in node.weights if p in node.precision or p in node.sparsity}
        for port, name in node.weights.items():
            parameter = isinstance(getattr(inner, port, None), nn.Parameter)
            setattr(inner, port, self._parameter(name) if parameter else self.tensors[name])
            self.places.setdefault(name, f"{path}.inner.{port}" if effective else f"{path}.{port}")
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
                self.places.setdefault(node.weights["value"], node.target)
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
        source = self._arg(node.args[0])
        if "data_in" in node.precision:
            source = self._quantised(source, node, "data_in")
        return self.fx.create_node("call_module", self.leaves[_leaf_key(node)], (source,), {}, node.id)

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
            case TorchConst():
                return _constant(arg)
            case _:
                return arg

    def _ref(self, ref: Ref) -> fx.Node:
        if self.graph.nodes[ref.node].outputs is None:
            return self.made[ref.node]
        if ref not in self.items:
            getitem = function_of("_operator.getitem")
            self.items[ref] = self.fx.call_function(getitem, (self.made[ref.node], ref.output))
        return self.items[ref]
