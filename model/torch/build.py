"""Graph + weights → a torch.fx.GraphModule that runs and trains; and trained tensors back under new keys."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from espalier.model.errors import GraphError, MissingCodeError
from espalier.model.graph.adapters import PORT as ADAPTED
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.node import Arg, Slice, TorchConst
from espalier.model.graph.operands import operands
from espalier.model.graph.ops import base_port, category, floating, quantisable
from espalier.model.graph.ports import carriers, choice
from espalier.model.graph.views import view_at
from espalier.model.store.weights import WeightStore
from espalier.model.torch.emulation import Emulated
from espalier.model.torch.emulators import emulation_of
from espalier.model.torch.in_place import EXCLUSIVE, exclusive_values
from espalier.model.torch.layers import Switch
from espalier.model.torch.leaf_builder import Callables, LeafBuilder, alters_input, attribute_at, leaf_key
from espalier.model.torch.low_rank import Adapted
from espalier.model.torch.targets import function_of
from espalier.model.torch.tensors import to_numpy
from espalier.model.torch.wrapped import wrapped_leaf

# Keys in an fx node's meta: the id of its node; (node id, port) pairs that it quantises; operands (port, fx name); the
# device of the trace that it stands for.
NODE, PORT, OPERANDS, DEVICE = "espalier_node", "espalier_port", "espalier_operands", "espalier_device"
_PATHS = "espalier"  # key in a built module's meta: weight name → path of its tensor


def build(
    graph: Graph, store: WeightStore, callables: Callables | None = None, *, packed: bool = False
) -> fx.GraphModule:
    """A GraphModule in eval mode over the graph's weights, mapped copy-on-write, so training does not change the store.

    `packed`: weights of packed nodes are stored as codes, which cannot train; otherwise as values.
    Inputs are keyword arguments named after the placeholders; results have the original's structure (tensor, tuple or
    dict). Raises GraphError for a graph without weights, ProjectError for missing tensors.
    """
    builder = (_RecordedBuilder if graph.runs == "module" else GraphBuilder)(graph, store, callables or {})
    builder.packs = packed
    return builder.module()


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Weight name → the live tensor of a built module, or of a deep copy of one."""
    untyped: Any = module
    return {name: attribute_at(module, path) for name, path in untyped.meta[_PATHS].items()}


def read_back(module: nn.Module, graph: Graph, store: WeightStore) -> Graph:
    """The graph with the module's present values; only changed tensors get new keys."""
    changed = {}
    for name, value in parameters_of(module).items():
        old = graph.weights.get(name)
        if old is not None:
            stored = to_numpy(value)
            key = stored.key()
            if key != old.key:
                store.hold(type(stored)(stored.array.copy(), stored.dtype))
                changed[name] = replace(old, key=key)
    return graph.with_weights(changed)


def torch_constant(const: TorchConst) -> Any:
    """torch's dtype, device, layout or memory format of that name; raises GraphError for an unknown one."""
    try:
        value = torch.device(const.name) if const.kind == "device" else getattr(torch, const.name, None)
    except RuntimeError:
        value = None
    if not isinstance(value, getattr(torch, const.kind)):
        raise GraphError(f"torch has no {const.kind} {const.name!r}.", "Open the source again.")
    return value


def device_of(*values: Any) -> torch.device:
    """The device of the first tensor; torch's default device if there is none."""
    return next((v.device for v in values if isinstance(v, Tensor)), torch.get_default_device())


def fix_devices(module: fx.GraphModule) -> None:
    """Write the devices of the trace into a built module, as constants: then it cannot be moved."""
    for node in [n for n in module.graph.nodes if DEVICE in n.meta]:
        device: Any = torch.device(node.meta[DEVICE])
        for user in list(node.users):
            user.args = fx.map_arg(user.args, lambda n, this=node, to=device: to if n is this else n)
            user.kwargs = fx.map_arg(user.kwargs, lambda n, this=node, to=device: to if n is this else n)
        module.graph.erase_node(node)
    module.recompile()


def _use(value: Any, node: Node, port: str) -> Any:
    """Equal for ports that can share a quantised tensor, such as the queries, keys and values of an attention.

    Only matrix products share, since they never write into their operands.
    """
    chosen, pruned = choice(node, port), node.sparsity.get(port)
    if category(node) not in ("linear", "matmul") or (pruned and not pruned.flows):
        return node.id, port
    if chosen is None:
        return value, pruned
    if chosen.format.stochastic:
        return node.id, port
    view = view_at(node, port) if chosen.format.rowwise and port in node.ports else None
    return value, str(chosen.format), chosen.scale, chosen.gradient, view, pruned


def _structured(graph: Graph, values: list[Any]) -> Any:
    """Results in the structure of the original model."""
    if graph.structure == "tensor":
        return values[0]
    return dict(zip(graph.output_names, values, strict=True)) if graph.structure == "dict" else tuple(values)


def _choices(node: Node) -> tuple[Any, ...]:
    return node.precision, node.sparsity, node.adapters


class GraphBuilder(LeafBuilder):
    """Builds the fx graph of a graph and the modules that it calls. `values`: node id → fx node."""

    def __init__(self, graph: Graph, store: WeightStore, callables: Callables) -> None:
        super().__init__(graph, store, callables)
        self.fx = fx.Graph()
        self.values: dict[str, fx.Node] = {}
        self.items: dict[Ref, fx.Node] = {}
        self.shared: dict[Any, fx.Node] = {}
        self.carriers = carriers(graph)
        self.devices: dict[str, fx.Node] = {}

    def wire(self) -> None:
        """Attach the leaves, then emit each node."""
        for node in self.graph:
            if node.call == "call_module":
                self._attach_leaf(node)
        for node in self.graph:
            self.values[node.id] = self._emit(node)

    def module(self) -> Any:
        """The graph as one module in eval mode."""
        self.wire()
        module = fx.GraphModule(self.root, self.fx)
        for name, path in self.paths.items():
            if self.graph.weights[name].role == "constant":  # not part of the state, as in the original
                parent, _, attribute = path.rpartition(".")
                module.get_submodule(parent).register_buffer(attribute, self.tensors[name], persistent=False)
        exclusive = module.code, exclusive_values(self.fx, self.graph.nodes, NODE)
        module.meta |= {_PATHS: self.paths, EXCLUSIVE: exclusive}
        return module.eval()

    def _emit(self, node: Node) -> fx.Node:
        match node.call:
            case "placeholder":
                return self.fx.placeholder(node.target, default_value=None)
            case "get_attr":
                name = node.weights["value"]
                path = self._value_path(node, self.tensors[name])
                self._attach(path, self.tensors[name])
                self.paths.setdefault(name, path)
                return self.fx.get_attr(path)
            case "output":
                return self.fx.output(_structured(self.graph, [self._arg(a) for a in node.args]))
            case "call_module":
                result = self._call_module(node)
            case _:
                result = self._call_function(node)
        result.meta[NODE] = node.id
        result = (
            self._quantised(result, node, "data_out") if node.outputs is None and choice(node, "data_out") else result
        )
        emulation = emulation_of(self.graph, self.store, node, self.tensors)
        if emulation is None:
            return result
        self._attach(path := f"emulated.{node.id}", Emulated(emulation))
        return self.fx.call_module(path, (result, *(self._ref(r) for r in emulation.sources)))

    def _call_module(self, node: Node) -> fx.Node:
        source = self._arg(node.args[0])
        if alters_input(node):
            source = self._quantised(source, node, "data_in")
        result = self.fx.create_node("call_module", self.leaves[leaf_key(node)], (source,), {}, node.id)
        result.meta[OPERANDS] = [("data_in", source.name)]
        return result

    def _call_function(self, node: Node) -> fx.Node:
        target = self.callables.get(node.target) if node.call == "opaque" else function_of(node.target)
        if target is None:
            raise MissingCodeError(
                f"{node.id} is opaque, and its function is not loaded.",
                "Open the model's source again.",
                node.id,
            )
        operand_names: list[tuple[str, str]] = []
        ports = operands(node.op, node.args, node.kwargs, self.graph.nodes)

        def operand(ref: Ref) -> Any:
            value, port = self._ref(ref), (next(ports) or ("", None))[0]
            value = self._quantised(value, node, port) if self._changes(node, port, ref) else value
            operand_names.append((port, value.name))
            return value

        args = tuple(self._arg(a, operand) for a in node.args)
        kwargs = {k: self._arg(a, operand) for k, a in node.kwargs.items()}
        args, kwargs = self._switched(node, target, args, kwargs) if node.attrs else (args, kwargs)
        if ADAPTED in node.adapters:
            path = f"adapted.{node.id}"
            self._attach(path, Adapted(target, self._adapter(node, f"{path}.adapter")))
            result = self.fx.create_node("call_module", path, args, kwargs, node.id)
        else:
            result = self.fx.create_node("call_function", target, args, kwargs, node.id)
        result.meta[OPERANDS] = operand_names
        return result

    def _changes(self, node: Node, port: str, ref: Ref) -> bool:
        """Whether an operand has a mask or a format."""
        if not port or not (choice(node, port) or port in node.sparsity):
            return False
        return port in node.sparsity or (base_port(port) in quantisable(node) and ref.node in self.carriers)

    def _switched(
        self, node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a function, with those that differ in training read from a Switch."""
        schema = getattr(target, "_schema", None)
        positions = {a.name: (i, a.default_value) for i, a in enumerate(schema.arguments)} if schema else {}
        positional, named = list(args), dict(kwargs)
        for name in [n for n in node.attrs if n in positions]:
            position, default = positions[name]
            evaluation = positional[position] if position < len(positional) else named.get(name, default)
            path = f"switches.{node.id}_{name}"
            self._attach(path, Switch(evaluation, node.attrs[name]))
            if position < len(positional):
                positional[position] = self.fx.call_module(path)
            else:
                named[name] = self.fx.call_module(path)
        return tuple(positional), named

    def _quantised(self, value: Any, node: Node, port: str) -> fx.Node:
        key = _use(value, node, port)
        if key not in self.shared:
            path = f"effective.{node.id}_{port}"
            self._attach(path, self._effective(node, port, path))
            self.shared[key] = self.fx.call_module(path, (value,))
        self.shared[key].meta.setdefault(PORT, []).append((node.id, port))
        return self.shared[key]

    def _arg(self, arg: Arg, of: Callable[[Ref], Any] | None = None) -> Any:
        """An argument of an fx node; `of` maps references to values."""
        match arg:
            case Ref():
                return (of or self._ref)(arg)
            case tuple():
                return [self._arg(a, of) for a in arg]
            case Slice(start, stop, step):
                return slice(self._arg(start, of), self._arg(stop, of), self._arg(step, of))
            case TorchConst():
                return self._device(arg) if arg.kind == "device" else torch_constant(arg)
            case _:
                return arg

    def _device(self, const: TorchConst) -> Any:
        """A device that the trace wrote into the graph: that of the inputs, since the module may be moved."""
        inputs = tuple(self.values[n.id] for n in self.graph if n.call == "placeholder" and n.id in self.values)
        if torch_constant(const).type == "meta" or not inputs:
            return torch_constant(const)
        if const.name not in self.devices:
            self.devices[const.name] = node = self.fx.call_function(device_of, inputs)
            node.meta[DEVICE] = const.name
        return self.devices[const.name]

    def _ref(self, ref: Ref) -> fx.Node:
        node = self.graph.nodes[ref.node]
        if node.outputs is None:
            return self.values[ref.node]
        if ref not in self.items:
            getitem, port = function_of("_operator.getitem"), out_port(ref.output)
            item = self.fx.call_function(getitem, (self.values[ref.node], ref.output))
            has_format = choice(node, port) and floating(node.ports.get(port))
            self.items[ref] = self._quantised(item, node, port) if has_format else item
        return self.items[ref]


class _RecordedBuilder(LeafBuilder):
    def module(self) -> Any:
        """A copy of the original module over the graph's weights, with replaced leaves (formats, masks, adapters)."""
        original: Any = self.callables.get("model")
        if original is None:
            raise MissingCodeError(
                "This model runs only with its own code, which is not loaded.", "Open its source again."
            )
        module: Any = copy.deepcopy(original).eval()
        self._adopt(module)
        for node in self._first_calls():
            if any(_choices(node)):
                module.set_submodule(node.target, self._wrapped_leaf(node, module.get_submodule(node.target)))
        module.meta = {_PATHS: self.paths}
        return module.eval()  # the new leaves too

    def _first_calls(self) -> Iterable[Node]:
        """The first call of each module: all calls run the one leaf that replaces it."""
        calls: dict[str, Node] = {}
        for node in self.graph:
            first = calls.setdefault(node.target, node) if node.call == "call_module" else node
            if _choices(first) != _choices(node):
                raise GraphError(
                    f"{first.id} and {node.id} call one module with different formats, sparsity or adapters, "
                    "but a recorded model has one leaf for both.",
                    f"Choose the same for all calls of {node.target}.",
                    node.id,
                )
        return calls.values()

    def _adopt(self, module: nn.Module) -> None:
        """Replace the module's tensors by the graph's weights; tied tensors stay tied."""
        named = [*module.named_parameters(), *module.named_buffers()]
        names = {id(v): n for n, v in named if n in self.tensors}
        self.paths = {n: n for n in names.values()}
        for inner in module.modules():
            listings = (inner.named_parameters, inner.named_buffers)
            for key, value in [pair for each in listings for pair in each(recurse=False, remove_duplicate=False)]:
                if id(value) in names:
                    setattr(inner, key, self.tensors[names[id(value)]])

    def _wrapped_leaf(self, node: Node, original: nn.Module) -> nn.Module:
        """A leaf with the formats of its input and result, for a model that cannot be rewired."""
        for name in node.weights.values():
            self.paths.pop(name, None)
        path = f"{node.target}.{int(alters_input(node))}"
        before = [self._effective(node, "data_in", f"{node.target}.0")] if alters_input(node) else []
        leaf, last = self._leaf(node, path), f"{node.target}.{len(before) + 1}"
        after = [self._effective(node, "data_out", last)] if "data_out" in node.precision else []
        return wrapped_leaf(before, leaf, after, original)
