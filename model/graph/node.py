"""A node of the graph, its arguments, and the names of its ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from espalier.model.graph.annotation import PLAIN, Annotation
from espalier.model.graph.meta import Adapter, Parallel, Precision, Sharding, Sparsity, TensorMeta

Call = Literal["placeholder", "get_attr", "call_module", "call_function", "opaque", "output"]


@dataclass(frozen=True, slots=True)
class Ref:
    """An edge's source: output number `output` of node `node`."""

    node: str
    output: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """A Python slice as an argument."""

    start: Arg = None
    stop: Arg = None
    step: Arg = None


@dataclass(frozen=True, slots=True)
class TorchConst:
    """A torch dtype, device, layout or memory format as an argument, by name."""

    kind: Literal["dtype", "device", "layout", "memory_format"]
    name: str


Arg = None | bool | int | float | str | complex | Ref | Slice | TorchConst | tuple["Arg", ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. Choices: `precision`, `sparsity` and `adapters` by port, `parallel`, `sharding`, `packed`,
    `arithmetic`. The `annotation` changes nothing that is computed. All other fields are facts.

    `op`: a row of the ops table. `target`: path of a module, qualified name of a function, name of a weight (get_attr)
    or of an input (placeholder). `ports`: tensors by port: data_in, data_in_1, …, data_out, data_out_1, … `weights`:
    names of the node's own tensors by port: weight, bias, running_mean, … `attrs`: constructor arguments of a module;
    arguments of a function that differ in training.
    """

    id: str
    op: str
    call: Call
    target: str
    args: tuple[Arg, ...] = ()
    kwargs: dict[str, Arg] = field(default_factory=dict)  # type: ignore[assignment]
    ports: dict[str, TensorMeta] = field(default_factory=dict)  # type: ignore[assignment]
    weights: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    attrs: dict[str, Arg] = field(default_factory=dict)  # type: ignore[assignment]
    outputs: int | None = None
    module_path: str = ""
    source: str = ""
    precision: dict[str, Precision] = field(default_factory=dict)  # type: ignore[assignment]
    sparsity: dict[str, Sparsity] = field(default_factory=dict)  # type: ignore[assignment]
    adapters: dict[str, Adapter] = field(default_factory=dict)  # type: ignore[assignment]
    parallel: Parallel | None = None
    sharding: Sharding | None = None  # over a mesh of devices
    packed: bool = False  # whether its weight is stored as codes in a running model (model/torch/mx_weights.py)
    arithmetic: Literal["float", "hardware"] = "float"  # in a running model
    annotation: Annotation = PLAIN

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """All references in args and kwargs, in order, repeats kept."""
        return tuple(refs((*self.args, *self.kwargs.values())))

    @property
    def out(self) -> TensorMeta | None:
        """The first output tensor; None for scalars and the output node."""
        return self.ports.get("data_out")

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all weights of the node: its own, scales of its formats, adapter matrices."""
        scales = (c.scale for c in self.precision.values() if c.scale)
        return (*self.weights.values(), *scales, *(name for x in self.adapters.values() for name in (x.a, x.b)))


def same(a: Node, b: Node) -> bool:
    """Whether two nodes are equal, arguments with their types: 1, 1.0 and True differ, and 0.0 and -0.0."""
    return a is b or (a == b and _text(a) == _text(b))


def _text(node: Node) -> str:
    return repr((node.args, sorted(node.kwargs.items()), sorted(node.attrs.items())))


def out_port(number: int) -> str:
    """data_out, data_out_1, …"""
    return f"data_out_{number}" if number else "data_out"


def in_port(number: int) -> str:
    """data_in, data_in_1, …"""
    return f"data_in_{number}" if number else "data_in"


def refs(args: Iterable[Arg]) -> Iterator[Ref]:
    """Every Ref inside nested arguments."""
    for arg in args:
        match arg:
            case Ref():
                yield arg
            case tuple():
                yield from refs(arg)
            case Slice(start, stop, step):
                yield from refs((start, stop, step))
            case _:
                pass


def map_arg(arg: Arg, swap: Callable[[Ref], Arg]) -> Arg:
    """`arg` with every Ref replaced by `swap(ref)`."""
    match arg:
        case Ref():
            return swap(arg)
        case tuple():
            return tuple(map_arg(a, swap) for a in arg)
        case Slice(start, stop, step):
            return Slice(map_arg(start, swap), map_arg(stop, swap), map_arg(step, swap))
        case _:
            return arg


def map_refs(node: Node, swap: Callable[[Ref], Ref]) -> Node:
    """`node` with every input replaced by `swap(input)`."""
    args = tuple(map_arg(a, swap) for a in node.args)
    return replace(node, args=args, kwargs={k: map_arg(a, swap) for k, a in node.kwargs.items()})
