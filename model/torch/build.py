"""Graph + weights → a torch.fx.GraphModule that runs and trains; and trained tensors back under new keys."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from espalier.model.errors import GraphError, MissingCodeError
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.adapters import PORT as ADAPTED
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import Arg, Slice, TorchConst
from espalier.model.graph.operands import operands
from espalier.model.graph.ops import base_port, category, floating, quantisable
from espalier.model.graph.ports import carriers, choice
from espalier.model.graph.views import view_at
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.model.torch.activation_masks import Flowing
from espalier.model.torch.emulation import Emulated
from espalier.model.torch.emulators import emulation_of
from espalier.model.torch.in_place import OWN, own_values
from espalier.model.torch.layers import Compressed, Effective, Switch, unpack_mask
from espalier.model.torch.leaves import make
from espalier.model.torch.low_rank import Adapted, LowRank
from espalier.model.torch.mx_weights import MXLinear, why_unpacked
from espalier.model.torch.mx_weights import packed as codes_of
from espalier.model.torch.targets import function_of
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.torch.wrapped import surrounded

Callables = Mapping[str, Callable[..., Any]]
# Keys in an fx node's meta: its node's id; the (node id, port) pairs it is for; its operands as (port, fx node's name).
NODE, PORT, OPERANDS = "espalier_node", "espalier_port", "espalier_operands"
_PLACES = "espalier"  # key in a built module's meta: weight name → path of its tensor


def build(
    graph: Graph, store: WeightStore, callables: Callables | None = None, *, packed: bool = False
) -> fx.GraphModule:
    """A GraphModule in eval mode over the graph's weights: mapped copy on write, so training leaves the store alone.

    `packed`: weights that nodes hold packed are so in the module too, where they cannot train; else as their values.

    Inputs are keyword arguments named as the placeholders; results leave as the original's did (tensor,
    tuple, or a dict by name). Raises GraphError for a graph without weights, ProjectError for missing tensors.
    """
    builder = _Recorded if graph.runs == "module" else Builder
    made = builder(graph, store, callables or {})
    made.packs = packed
    return made.module()


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


def load(weight: Weight, read: Callable[[str], Stored]) -> Tensor:
    """A weight as torch has it; raises GraphError where the model was opened without."""
    if weight.key is None:
        raise GraphError("The model was opened without weights, so it cannot run.", "Open it with weights.")
    value = to_torch(read(weight.key))
    return nn.Parameter(value, requires_grad=weight.trainable) if weight.role == "parameter" else value


def effective(node: Node, port: str, graph: Graph, store: WeightStore, scale: Tensor | None = None) -> Effective:
    """What the tensor at a node's port goes through: its mask, then its format in the view of the op.

    `scale`: the tensor of a given scale; where it is None and the port has one, it is read from the store.
    """
    chosen, sparsity = choice(node, port), node.sparsity.get(port)
    mask = None
    if sparsity and sparsity.mask is not None:
        mask = unpack_mask(to_torch(store.get(sparsity.mask)), node.ports[port].sizes(graph.symbols))
    flowing = Flowing(sparsity) if sparsity and sparsity.flows else None
    if chosen is None:
        return Effective(None, mask, flowing=flowing)
    view = view_at(node, port) if port in node.ports else None
    if scale is None and chosen.scale is not None:
        scale = load(graph.weights[chosen.scale], store.get)
    return Effective(chosen.format, mask, view, scale, chosen.gradient == "identity", flowing)


def torch_constant(const: TorchConst) -> Any:
    """torch's dtype, device, layout or memory format of that name; raises GraphError for none."""
    try:
        found = torch.device(const.name) if const.kind == "device" else getattr(torch, const.name, None)
    except RuntimeError:
        found = None
    if not isinstance(found, getattr(torch, const.kind)):
        raise GraphError(f"torch has no {const.kind} {const.name!r}.", "Open the source again.")
    return found


def leaf_key(node: Node) -> tuple[Any, ...]:
    """Equal for calls that can share one leaf: the same module with the same choices for its tensors."""
    chosen = ((p, c) for p, c in node.precision.items() if p in ("weight", "bias"))
    formats = sorted((p, str(c.format), c.gradient, c.scale or "") for p, c in chosen)
    masks = sorted((p, str(s.mask)) for p, s in node.sparsity.items())
    return node.target, tuple(formats), tuple(masks), tuple(sorted(node.adapters.items())), node.packed


def alters_input(node: Node) -> bool:
    """Whether what flows into a module is pruned or goes through a format first."""
    return "data_in" in node.precision or "data_in" in node.sparsity


def _use(value: Any, node: Node, port: str) -> Any:
    """Equal for ports that can share a quantised tensor: the queries, keys and values of an attention do.

    Only products of matrices share, since they never write into their operands.
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
    """Results as they leave the model."""
    if graph.structure == "tensor":
        return values[0]
    return dict(zip(graph.output_names, values, strict=True)) if graph.structure == "dict" else tuple(values)


def _choices(node: Node) -> tuple[Any, ...]:
    return node.precision, node.sparsity, node.adapters


class Builder:
    """Makes the fx graph and what it calls; whoever keeps leaves between builds derives from it."""

    packs = False

    def __init__(self, graph: Graph, store: WeightStore, callables: Callables) -> None:
        self.graph, self.store, self.callables = graph, store, callables
        self.root, self.fx = nn.Module(), fx.Graph()
        self.made: dict[str, fx.Node] = {}
        self.items: dict[Ref, fx.Node] = {}
        self.tensors = self.loaded()
        self.leaves: dict[tuple[Any, ...], str] = {}
        self.places: dict[str, str] = {}
        self.shared: dict[Any, fx.Node] = {}
        self.carriers = carriers(graph)

    def loaded(self) -> dict[str, Tensor]:
        """The graph's weights by name."""
        read = self.store.reader()
        return {name: load(weight, read) for name, weight in self.graph.weights.items()}

    def wire(self) -> None:
        """Attach the leaves, then emit each node."""
        for node in self.graph:
            if node.call == "call_module":
                self._attach_leaf(node)
        for node in self.graph:
            self.made[node.id] = self._emit(node)

    def module(self) -> Any:
        """The whole as one module."""
        self.wire()
        module = fx.GraphModule(self.root, self.fx)
        for name, path in self.places.items():
            if self.graph.weights[name].role == "constant":  # not part of the state, as in the original
                parent, _, attribute = path.rpartition(".")
                module.get_submodule(parent).register_buffer(attribute, self.tensors[name], persistent=False)
        module.meta |= {_PLACES: self.places, OWN: (module.code, own_values(self.fx, self.graph.nodes, NODE))}
        return module.eval()

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
        key = leaf_key(node)
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

    def _free_for(self, node: Node, value: Tensor) -> str:
        """The path that a node reads its tensor from: another where a module has a tensor of its own there by now."""
        try:
            return node.target if _at(self.root, node.target) is value else f"values.{node.id}"
        except AttributeError:
            return node.target

    def _leaf(self, node: Node, path: str) -> nn.Module:
        if ADAPTED in node.adapters:
            return Adapted(self._base(node, f"{path}.base"), self._adapter(node, f"{path}.adapter"))
        return self._base(node, path)

    def _adapter(self, node: Node, path: str) -> LowRank:
        held = node.adapters[ADAPTED]
        self.places |= {held.a: f"{path}.a", held.b: f"{path}.b"}
        return LowRank(node, held, self._parameter(held.a), self._parameter(held.b))

    def _held(self, node: Node, path: str) -> MXLinear:
        """A Linear with its weight in codes: what mask and format make of it, once and for all."""
        chosen, weight = choice(node, "weight"), self._parameter(node.weights["weight"]).detach()
        assert chosen is not None and isinstance(chosen.format, MXInt)
        codes = codes_of(chosen.format, self._effective(node, "weight", path).seen(weight), node.id)
        bias = self._parameter(node.weights["bias"]) if "bias" in node.weights else None
        if bias is None or "bias" in node.precision or "bias" in node.sparsity:
            return MXLinear(codes, None if bias is None else self._effective(node, "bias", path)(bias).detach())
        self.places.setdefault(node.weights["bias"], f"{path}.bias")
        return MXLinear(codes, bias)

    def _base(self, node: Node, path: str) -> nn.Module:
        if self.packs and node.packed and not why_unpacked(node):
            return self._held(node, path)
        inner = make(node.attrs)
        chosen = [p for p in node.weights if p in node.precision or p in node.sparsity]
        effective = {p: self._effective(node, p, f"{path}.effective.{p}") for p in chosen}
        for port, name in node.weights.items():
            parameter = isinstance(getattr(inner, port, None), nn.Parameter)
            setattr(inner, port, self._parameter(name) if parameter else self.tensors[name])
            self.places.setdefault(name, f"{path}.inner.{port}" if effective else f"{path}.{port}")
        return Compressed(inner, node.op, effective) if effective else inner

    def _parameter(self, name: str) -> nn.Parameter:
        value = self.tensors[name]
        return value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)

    def _effective(self, node: Node, port: str, path: str) -> Effective:
        chosen = choice(node, port)
        if chosen is None or chosen.scale is None:
            return effective(node, port, self.graph, self.store)
        self.places.setdefault(chosen.scale, f"{path}.scale")
        return effective(node, port, self.graph, self.store, self.tensors[chosen.scale])

    # -- nodes

    def _emit(self, node: Node) -> fx.Node:
        match node.call:
            case "placeholder":
                return self.fx.placeholder(node.target, default_value=None)
            case "get_attr":
                name = node.weights["value"]
                path = self._free_for(node, self.tensors[name])
                self._attach(path, self.tensors[name])
                self.places.setdefault(name, path)
                return self.fx.get_attr(path)
            case "output":
                return self.fx.output(_structured(self.graph, [self._arg(a) for a in node.args]))
            case "call_module":
                made = self._call_module(node)
            case _:
                made = self._call_function(node)
        made.meta[NODE] = node.id
        made = self._quantised(made, node, "data_out") if node.outputs is None and choice(node, "data_out") else made
        emulation = emulation_of(self.graph, self.store, node, self.tensors)
        if emulation is None:
            return made
        self._attach(path := f"emulated.{node.id}", Emulated(emulation))
        return self.fx.call_module(path, (made, *(self._ref(r) for r in emulation.sources)))

    def _call_module(self, node: Node) -> fx.Node:
        source = self._arg(node.args[0])
        if alters_input(node):
            source = self._quantised(source, node, "data_in")
        made = self.fx.create_node("call_module", self.leaves[leaf_key(node)], (source,), {}, node.id)
        made.meta[OPERANDS] = [("data_in", source.name)]
        return made

    def _call_function(self, node: Node) -> fx.Node:
        target = self.callables.get(node.target) if node.call == "opaque" else function_of(node.target)
        if target is None:
            raise MissingCodeError(
                f"{node.id} is opaque, and its function is not at hand.",
                "Open the model's source again.",
                node.id,
            )
        taken: list[tuple[str, str]] = []
        found = operands(node.op, node.args, node.kwargs, self.graph.nodes)

        def operand(ref: Ref) -> Any:
            value, port = self._ref(ref), (next(found) or ("", None))[0]
            value = self._quantised(value, node, port) if self._changes(node, port, ref) else value
            taken.append((port, value.name))
            return value

        args = tuple(self._arg(a, operand) for a in node.args)
        kwargs = {k: self._arg(a, operand) for k, a in node.kwargs.items()}
        args, kwargs = self._switched(node, target, args, kwargs) if node.attrs else (args, kwargs)
        if ADAPTED in node.adapters:
            path = f"adapted.{node.id}"
            self._attach(path, Adapted(target, self._adapter(node, f"{path}.adapter")))
            made = self.fx.create_node("call_module", path, args, kwargs, node.id)
        else:
            made = self.fx.create_node("call_function", target, args, kwargs, node.id)
        made.meta[OPERANDS] = taken
        return made

    def _changes(self, node: Node, port: str, ref: Ref) -> bool:
        """Whether an operand goes through a mask or a format."""
        if not port or not (choice(node, port) or port in node.sparsity):
            return False
        return port in node.sparsity or (base_port(port) in quantisable(node) and ref.node in self.carriers)

    def _switched(
        self, node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a function, with those that training changes read from a switch."""
        schema = getattr(target, "_schema", None)
        places = {a.name: (i, a.default_value) for i, a in enumerate(schema.arguments)} if schema else {}
        given, named = list(args), dict(kwargs)
        for name in [n for n in node.attrs if n in places]:
            place, default = places[name]
            evaluation = given[place] if place < len(given) else named.get(name, default)
            path = f"switches.{node.id}_{name}"
            self._attach(path, Switch(evaluation, node.attrs[name]))
            if place < len(given):
                given[place] = self.fx.call_module(path)
            else:
                named[name] = self.fx.call_module(path)
        return tuple(given), named

    def _quantised(self, value: Any, node: Node, port: str) -> fx.Node:
        key = _use(value, node, port)
        if key not in self.shared:
            path = f"effective.{node.id}_{port}"
            self._attach(path, self._effective(node, port, path))
            self.shared[key] = self.fx.call_module(path, (value,))
        self.shared[key].meta.setdefault(PORT, []).append((node.id, port))
        return self.shared[key]

    def _arg(self, arg: Arg, of: Callable[[Ref], Any] | None = None) -> Any:
        """An argument of an fx node; `of` gives what a reference in it stands for."""
        match arg:
            case Ref():
                return (of or self._ref)(arg)
            case tuple():
                return [self._arg(a, of) for a in arg]
            case Slice(start, stop, step):
                return slice(self._arg(start, of), self._arg(stop, of), self._arg(step, of))
            case TorchConst():
                return torch_constant(arg)
            case _:
                return arg

    def _ref(self, ref: Ref) -> fx.Node:
        node = self.graph.nodes[ref.node]
        if node.outputs is None:
            return self.made[ref.node]
        if ref not in self.items:
            getitem, port = function_of("_operator.getitem"), out_port(ref.output)
            item = self.fx.call_function(getitem, (self.made[ref.node], ref.output))
            held = choice(node, port) and floating(node.ports.get(port))
            self.items[ref] = self._quantised(item, node, port) if held else item
        return self.items[ref]


class _Recorded(Builder):
    def module(self) -> Any:
        """The original module over the graph's weights, with the leaves that have choices swapped."""
        original: Any = self.callables.get("model")
        if original is None:
            raise MissingCodeError(
                "This model runs only with its own code, which is not at hand.", "Open its source again."
            )
        module: Any = copy.deepcopy(original).eval()
        self._adopt(module)
        for node in self._one_call_each():
            if any(_choices(node)):
                module.set_submodule(node.target, self._whole_leaf(node, module.get_submodule(node.target)))
        module.meta = {_PLACES: self.places}
        return module.eval()  # the new leaves too

    def _one_call_each(self) -> Iterable[Node]:
        """The first call of each module of a recorded model: all calls run the one leaf that takes its place."""
        calls: dict[str, Node] = {}
        for node in self.graph:
            first = calls.setdefault(node.target, node) if node.call == "call_module" else node
            if _choices(first) != _choices(node):
                raise GraphError(
                    f"{first.id} and {node.id} call one module with different formats, sparsity or adapters, "
                    "and a recorded model can give it only one.",
                    f"Choose the same for all calls of {node.target}.",
                    node.id,
                )
        return calls.values()

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

    def _whole_leaf(self, node: Node, original: nn.Module) -> nn.Module:
        """A leaf with all its choices inside, activations too, for a model that cannot be re-wired."""
        for name in node.weights.values():
            self.places.pop(name, None)
        place = f"{node.target}.{int(alters_input(node))}"
        before = [self._effective(node, "data_in", f"{node.target}.0")] if alters_input(node) else []
        leaf, last = self._leaf(node, place), f"{node.target}.{len(before) + 1}"
        after = [self._effective(node, "data_out", last)] if "data_out" in node.precision else []
        return surrounded(before, leaf, after, original)
