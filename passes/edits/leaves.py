"""New modules for edits: made by torch for the shape that flows in, with weights of a named origin in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.document.codec import decode_arg
from espalier.model.errors import EspalierError, GraphError, nearest
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.graph.node import Arg
from espalier.model.torch.leaf_names import OP_OF_CLASS, class_of_name
from espalier.passes.edits.base import free_id, free_path, shown

if TYPE_CHECKING:
    from torch import nn

    from espalier.passes.base import Context

Init = Literal["default", "identity", "zero"]
_SIZED = {  # constructor arguments that follow from what flows in: of a shape, its last size or its channels
    "Linear": ("in_features", "out_features"), "LayerNorm": ("normalized_shape",), "RMSNorm": ("normalized_shape",),
    **{f"BatchNorm{d}d": ("num_features",) for d in (1, 2, 3)},
    **{f"InstanceNorm{d}d": ("num_features",) for d in (1, 2)},
    **{f"Conv{d}d": ("in_channels", "out_channels") for d in (1, 2, 3)}, "GroupNorm": ("num_channels",),
}  # fmt: skip
SMALL, TIMES = 2**24, 4  # parameters of a new module: so many, or so many times those of the largest weight
SHARED = ("inplace", "device", "dtype")  # an in-place module would change what other nodes take
_LAST = ("Linear", "LayerNorm", "RMSNorm")


def module_class(op: str, taken: TensorMeta) -> str:
    """The class for a word such as "gelu", "layer_norm" or "BatchNorm2d" on this tensor; raises GraphError."""
    if name := class_of_name(op):
        return name
    rank = len(taken.shape)
    spatial = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}.get(rank, "1d")
    names = [name for name, own in OP_OF_CLASS.items() if own == op and name != "Conv1D"]
    fit = [name for name in names if name.endswith(spatial)] or [n for n in names if not n.endswith(("1d", "2d", "3d"))]
    if not fit:
        words = sorted({*OP_OF_CLASS.values()} | set(OP_OF_CLASS))
        raise GraphError(f"{op!r} is no module that can be made for {shown(taken)}.", nearest(op, words))
    return fit[0]


def new_module(
    graph: Graph, wish: str, source: Ref, op: str, attrs: Mapping[str, Any], init: Init, context: Context
) -> tuple[Graph, Node]:
    """The graph with the new module's weights, and the node that calls it; the node is not in the graph yet.

    `wish`: its module path if that is free. `attrs`: constructor arguments besides the sizes. Raises GraphError.
    """
    from espalier.model.graph.graph import out_port
    from espalier.model.torch.leaves import leaf_class

    taken = graph.nodes[source.node].ports.get(out_port(source.output))
    if taken is None:
        raise GraphError(f"{source.node} gives no tensor.", "Choose a node that does.", source.node)
    name = leaf_class(module_class(op, taken)).__name__  # some are kept under a name that is no class of theirs
    module = _made(name, taken, attrs, context.seed, most_parameters(graph))
    _initialise(module, name, init)
    path = free_path(graph, wish)
    return with_module(graph, free_id(graph, path), path, source, module, context)


def with_module(
    graph: Graph, name: str, path: str, source: Ref, module: nn.Module, context: Context
) -> tuple[Graph, Node]:
    """The graph with the weights of a leaf module, and the node `name` that calls it at `path`."""
    from espalier.model.torch.leaves import attributes
    from espalier.model.torch.tensors import to_numpy

    parameters = dict(module.named_parameters(recurse=False))
    weights, ports = dict[str, Weight](), dict[str, str]()
    for port, value in {**parameters, **dict(module.named_buffers(recurse=False))}.items():
        role = "parameter" if port in parameters else "buffer"
        key = context.store.hold(to_numpy(value.clone()))
        dtype = str(value.dtype).removeprefix("torch.")
        weights[f"{path}.{port}"] = Weight(key, tuple(value.shape), dtype, role, role == "parameter")
        ports[port] = f"{path}.{port}"
    attrs = attributes(module)
    node = Node(name, OP_OF_CLASS[str(attrs["class"])], "call_module", path, (source,), weights=ports, attrs=attrs,
                module_path=path.rpartition(".")[0])  # fmt: skip
    return replace(graph, weights={**graph.weights, **weights}), node


def _made(name: str, taken: TensorMeta, attrs: Mapping[str, Any], seed: int, most: int) -> nn.Module:
    """A module of class `name` with torch's own initial values, drawn from `seed`."""
    import torch

    from espalier.model.torch.leaves import leaf_class, parameters

    known = [p for p in parameters(name) if p not in SHARED]
    for key in attrs:
        if key not in known:
            raise GraphError(f"{name} has no attribute {key!r}.", nearest(key, known))
    values = {**_sizes(name, taken), **{k: argument(k, v) for k, v in attrs.items()}}
    kind: Any = leaf_class(name)
    try:
        with torch.device("meta"):  # a size may come from a file: nothing is filled before it is known to be sound
            count = sum(p.numel() for p in kind(**values).parameters())
        if count > most:
            text = f"A {name} would have {count} parameters."
            raise GraphError(text, f"This model allows up to {most}: use smaller sizes.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = kind(**values)
            return made.to(getattr(torch, taken.dtype)) if any(True for _ in made.parameters()) else made
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise GraphError(f"A {name} cannot be made from {values}: {error}.", "Change its attrs.") from error


def most_parameters(graph: Graph) -> int:
    """How many parameters an edit may make at once: sizes may come from a file, and memory is filled by them."""
    return max(SMALL, TIMES * max((w.elements for w in graph.weights.values()), default=0))


def argument(name: str, value: Any) -> Arg:
    """A constructor argument from a recipe's plain value; raises GraphError for a table that is none."""
    try:
        return decode_arg(list(value) if isinstance(value, tuple) else value)
    except (ValueError, LookupError, TypeError, EspalierError) as error:
        raise GraphError(f"{name} cannot be {value!r}.", "Give a number, a text or a list.") from error


def _sizes(name: str, taken: TensorMeta) -> dict[str, Any]:
    """The constructor arguments that follow from the tensor that flows in."""
    sized = _SIZED.get(name, ())
    axis = len(taken.shape) - 1 if name in _LAST else 1
    size = taken.shape[axis] if 0 <= axis < len(taken.shape) else None
    if sized and not isinstance(size, int):
        raise GraphError(f"A {name} needs a fixed size, and {shown(taken)} has none there.", "Insert it elsewhere.")
    values: dict[str, Any] = dict.fromkeys(sized, size)
    if name.startswith("Conv"):
        values["kernel_size"] = 1
    if name == "GroupNorm":
        values["num_groups"] = 1
    if name in ("Softmax", "LogSoftmax"):
        values["dim"] = -1
    return values


def _initialise(module: nn.Module, name: str, init: Init) -> None:
    """Values of the named origin; raises GraphError where the module has no such ones."""
    import torch
    from torch import nn

    if init == "default":
        return
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if not isinstance(weight, nn.Parameter) or not (name == "Linear" or name.startswith("Conv")):
        raise GraphError(f"A {name} has no {init} initialisation.", 'Leave init out, or write "default".')
    square = weight.shape[0] == weight.shape[1] and all(s % 2 for s in weight.shape[2:])
    if init == "identity" and not square:
        raise GraphError(f"A {name} of {' × '.join(map(str, weight.shape))} cannot be an identity.",
                         "Give it as many outputs as inputs and an odd kernel.")  # fmt: skip
    with torch.no_grad():
        weight.zero_()
        if isinstance(bias, nn.Parameter):
            bias.zero_()
        if init == "identity":
            centre = tuple(s // 2 for s in weight.shape[2:])
            for i in range(weight.shape[0]):
                weight[(i, i, *centre)] = 1.0
