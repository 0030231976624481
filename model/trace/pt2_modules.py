"""Rebuilds the leaf modules of a .pt2 file, which stores only their types and the functions that they called.

A leaf is used only if its result is bit-identical to that of the file's functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from espalier.model.errors import ProjectError
from espalier.model.graph.node import Arg
from espalier.model.graph.ops import op_of
from espalier.model.torch.leaves import make, op_of_type, parameters
from espalier.model.torch.targets import OpOverload
from espalier.model.trace.flatten import Flat
from espalier.model.trace.provenance import Provenance


def rebuild_modules(program: ExportedProgram) -> nn.Module:
    """A module with the program's tensors under their paths, and its leaf modules as far as they can be rebuilt."""
    return _ModuleBuilder(program).root()


class _ModuleBuilder:
    def __init__(self, program: ExportedProgram) -> None:
        self._root = _tensors_of(program)
        self._flat = Flat(program)
        self._provenance = Provenance(self._flat)
        sig = program.graph_signature
        lifted = {**sig.inputs_to_parameters, **sig.inputs_to_buffers}
        held = {**dict(self._root.named_parameters(remove_duplicate=False)),
                **dict(self._root.named_buffers(remove_duplicate=False))}  # fmt: skip
        self._tensors = {node: (path, held[path]) for node, path in lifted.items() if path in held}

    def root(self) -> nn.Module:
        """The root module with all rebuilt leaves."""
        for path, (kind, calls) in self._calls().items():
            leaf = self._leaf(path, kind, calls[0])
            if leaf is not None and all(self._agrees(leaf, nodes) for nodes in calls):
                _attach(self._root, path, leaf)
        return self._root

    def _calls(self) -> dict[str, tuple[str, list[list[fx.Node]]]]:
        """Module path → (class, the nodes of each call)."""
        found: dict[str, tuple[str, dict[str, list[fx.Node]]]] = {}
        for node in self._flat.nodes:
            stack = node.meta.get("nn_module_stack") if node.op == "call_function" else None
            key, path = self._provenance.innermost_call(node)
            kind = str(list(stack.values())[-1][1]) if stack else ""
            if path and op_of_type(kind) and isinstance(node.meta.get("val"), Tensor | list | tuple):
                found.setdefault(path, (kind, {}))[1].setdefault(key, []).append(node)
        return {path: (kind, list(calls.values())) for path, (kind, calls) in found.items()}

    def _leaf(self, path: str, kind: str, nodes: list[fx.Node]) -> nn.Module | None:
        tensors = self._own(path) | self._read(nodes)
        attrs = _attributes(kind, nodes, tensors)
        try:
            leaf = make(attrs) if attrs else None
            for name, value in tensors.items() if leaf else ():
                setattr(leaf, name, value)
        except (ProjectError, TypeError, KeyError):
            return None
        names = {n for n, _ in (*leaf.named_parameters(), *leaf.named_buffers())} if leaf else set[str]()
        return leaf.eval() if leaf and names == set(tensors) else None

    def _own(self, path: str) -> dict[str, Tensor]:
        try:
            home = self._root.get_submodule(path)
        except AttributeError:  # a module without tensors
            return {}
        return dict((*home.named_parameters(recurse=False), *home.named_buffers(recurse=False)))

    def _read(self, nodes: list[fx.Node]) -> dict[str, Tensor]:
        """The tensors that a call reads, by the last part of their path: a tied one has another path."""
        inputs = (self._flat.resolve(i) for n in nodes for i in n.all_input_nodes)
        found = (self._tensors[i.name] for i in inputs if i.name in self._tensors)
        return {path.rpartition(".")[2]: value for path, value in found}

    # -- comparison with the file's functions

    def _agrees(self, leaf: nn.Module, nodes: list[fx.Node]) -> bool:
        """Whether the leaf's result equals that of the nodes of one call, on values of the example's shape."""
        inputs = {self._flat.resolve(i): None for n in nodes for i in n.all_input_nodes if i not in nodes}
        data = [i for i in inputs if i.name not in self._tensors and isinstance(i.meta.get("val"), Tensor)]
        if len(data) != 1 or not isinstance(nodes[-1].meta.get("val"), Tensor):
            return False
        values: dict[fx.Node, Any] = {i: self._value(i, leaf) for i in inputs}
        try:
            with torch.no_grad():
                for node in nodes:
                    values[node] = self._run(node, values)
                return _same(leaf(values[data[0]].clone()), values[nodes[-1]])
        # Wrong constructor arguments raise here.
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError):
            return False

    def _run(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        def get(arg: fx.Node) -> Any:
            source = self._flat.resolve(arg)
            value = values[source]  # cloned, since a function may write into its arguments; the model's own are not
            return value.clone() if isinstance(value, Tensor) and source.name not in self._tensors else value

        function: Any = node.target
        return function(*fx.map_arg(node.args, get), **fx.map_arg(node.kwargs, get))

    def _value(self, node: fx.Node, leaf: nn.Module) -> Any:
        if node.name in self._tensors:
            return self._tensors[node.name][1]
        value: Any = node.meta["val"]
        if not isinstance(value, Tensor):
            return _size(value)
        shape = [_size(d) for d in value.shape]
        if value.is_floating_point():
            return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(value.dtype)
        count = int(getattr(leaf, "num_embeddings", 2))
        return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(0)).to(value.dtype)


def _size(value: Any) -> Any:
    return value.node.hint if isinstance(value, torch.SymInt) else value


def _same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _tensors_of(program: ExportedProgram) -> nn.Module:
    """A program's parameters and buffers under their own paths, without any function."""
    root, sig = nn.Module(), program.graph_signature
    values: dict[str, Any] = {**program.constants, **program.state_dict}
    for path in dict.fromkeys(sig.inputs_to_parameters.values()):
        home, name = _home(root, path)
        home.register_parameter(name, values[path])
    for path in dict.fromkeys(sig.inputs_to_buffers.values()):
        home, name = _home(root, path)
        home.register_buffer(name, values[path], persistent=path not in sig.non_persistent_buffers)
    return root


def _attach(root: nn.Module, path: str, leaf: nn.Module) -> None:
    home, name = _home(root, path)
    home.add_module(name, leaf)


def _home(root: nn.Module, path: str) -> tuple[nn.Module, str]:
    """(parent module of `path`, created if missing; name within it)."""
    *parents, name = path.split(".")
    for part in parents:
        if not hasattr(root, part):
            root.add_module(part, nn.Module())
        root = getattr(root, part)
    return root, name


# -- constructor arguments, from the arguments of the called functions


def _attributes(kind: str, nodes: list[fx.Node], tensors: dict[str, Tensor]) -> dict[str, Arg] | None:
    name, op = kind.rpartition(".")[2], op_of_type(kind)
    main = [n for n in nodes if isinstance(n.target, OpOverload) and op_of(str(n.target)) == op]
    if len(main) != 1 and op != "linear":  # a Linear is determined by its weight
        return None
    known = _arguments(main[0]) if main else {}
    if known.get("train") is True or known.get("training") is True:  # a module in eval mode would differ
        return None
    known |= _shapes(name, tensors, int(known.get("groups", 1))) | _padding(nodes)
    if known.get("padding_idx") == -1:
        known["padding_idx"] = None
    wanted = {p: _plain(known[p]) for p in parameters(name) if p in known}
    return {"class": name, **{p: v for p, v in wanted.items() if not isinstance(v, Tensor | fx.Node)}}


def _arguments(node: fx.Node) -> dict[str, Any]:
    """A function's arguments by name, with defaults."""
    target: Any = node.target
    schema = target._schema.arguments
    given = dict(zip((a.name for a in schema), node.args, strict=False)) | dict(node.kwargs)
    return {a.name: a.default_value for a in schema if a.has_default_value()} | given


def _shapes(name: str, tensors: dict[str, Tensor], groups: int) -> dict[str, Any]:
    """The arguments that follow from the weights' shapes."""
    weight = tensors.get("weight")
    found: dict[str, Any] = {"bias": "bias" in tensors, "track_running_stats": "running_mean" in tensors}
    found |= dict.fromkeys(("affine", "elementwise_affine"), weight is not None)
    if "running_mean" in tensors:
        found["num_features"] = tensors["running_mean"].shape[0]
    if weight is None:
        return found
    first, *rest = weight.shape
    found |= dict.fromkeys(("num_embeddings", "num_parameters", "num_channels", "num_features", "nx"), first)
    if rest:
        found |= dict.fromkeys(("in_features", "embedding_dim", "nf"), rest[-1]) | {"out_features": first}
    if name.startswith("Conv") and len(rest) > 1:
        channels = {"in_channels": rest[0] * groups, "out_channels": first}
        turned = {"in_channels": first, "out_channels": rest[0] * groups}
        found |= (turned if "Transpose" in name else channels) | {"kernel_size": tuple(rest[1:])}
    return found


def _padding(nodes: Iterable[fx.Node]) -> dict[str, Any]:
    """padding and padding_mode of a convolution that calls a separate pad function."""
    pads = [n for n in nodes if isinstance(n.target, OpOverload) and op_of(str(n.target)) == "pad"]
    if len(pads) != 1 or len(pads[0].args) < 3:
        return {}
    sides: Any = pads[0].args[1]
    return {"padding": tuple(sides[::-2]), "padding_mode": pads[0].args[2]}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value
